// The page: a question on the left, its answer on the right, asked anew with every change.

import { clusters, version } from "nest:presets";
import { workers } from "./boot";
import { deviceOf, baseCluster, searchArguments } from "./cluster_edit";
import { byId, copy, h, put } from "./dom";
import { clusterOfYaml, recognise, Unreadable } from "./documents";
import { dropZone, listenEverywhere, Notices, type Given } from "./drop";
import { Cancelled, Engine } from "./engine";
import { showCloser, showHeadline, spokenAnswer, spokenPartial } from "./headline";
import { Importer } from "./importer";
import type { Context, Panel } from "./panel";
import { allPanels } from "./panels";
import { QuestionForm } from "./question";
import { shareMenu } from "./share";
import { firstQuestion, fromFragment, History, toFragment, kLongestDocument, type Question } from "./state";
import { startTips } from "./tips";
import { expected, failureOf, isPlan, type Answer, type Json, type Plan } from "./types";

const kPatience = 150;   // ms that a question runs on beside a newer one, so that a drag shows answers on its way
const kSoon = 400;       // ms after which a plan on the way is shown: most answers are there by then
const kRemembered = 40;  // answers

class Page {
  private question: Question;
  private history: History;
  private readonly engine: Engine;
  private readonly form: QuestionForm;
  private readonly panels: Panel[];
  private readonly notices = new Notices();
  private readonly remembered = new Map<string, Answer>();
  private readonly status = h("div", { class: "offscreen", role: "status", "aria-live": "polite" });
  private readonly refusal = h("div", { id: "refusal" });  // why the question on the screen has no answer; the one before stays below
  private readonly headline = h("section", { class: "headline", "aria-label": "The answer" });
  private readonly undoButton = h("button", { type: "button", title: "Undo (Ctrl+Z)" }, "Undo");
  private readonly redoButton = h("button", { type: "button", title: "Redo (Ctrl+Shift+Z)" }, "Redo");
  private readonly layout: HTMLElement;
  private readonly links: HTMLElement[];  // to the panels
  private generation = 0;
  private refused = false;
  private waiting = false;  // for the answer to the question on the screen
  private started = 0;
  private timer = 0;
  private partialTimer = 0;
  private spoken = 0;       // the generation of which a plan on the way was told to those who hear the page
  private early = "";       // the plan on the way that is shown, if one is
  private linkTimer = 0;
  shown: { question: Question; answer: Answer } | null = null;

  constructor() {
    const link = fromFragment(location.hash);
    this.question = link?.question ?? firstQuestion();
    this.history = new History(this.question);
    this.engine = new Engine(workers((message) => this.fail(message)));
    const take = (given: Given[]): void => this.take(given);
    const complain = (message: string): void => this.notices.say(message);
    this.form = new QuestionForm((edit, key) => this.change(edit, key), (kind) => dropZone(kind, take, complain));
    this.panels = allPanels();
    this.links = this.panels.map((panel) => h("li", {}, h("a", { href: `#${panel.id}`, on: { click: (event: Event) => {
      event.preventDefault();  // the fragment is the question's
      panel.element.scrollIntoView({ behavior: "smooth" });
      panel.element.focus({ preventScroll: true });
    } } }, panel.title)));
    const main = h("main", { id: "answer", tabindex: "-1" }, this.notices.element, this.refusal, this.headline,
      h("nav", { "aria-label": "Panels" }, h("ul", { class: "panel-nav" }, ...this.links)),
      h("div", { class: "panels" }, ...this.panels.map((panel) => panel.element)),
      h("footer", { class: "muted" }, `nest ${version}. Planned on this machine, in this page; nothing was sent anywhere.`));
    this.layout = h("div", { class: "layout" },
      h("aside", { "aria-label": "The question" }, this.phoneFold()), main);
    const top = h("header", { class: "top" }, h("h1", { class: "brand" }, "nest"),
      h("span", { class: "tag" }, "The fastest way to train it that fits, proven, while you drag. Nothing leaves this page."),
      h("div", { class: "tools" }, this.undoButton, this.redoButton,
        h("button", { type: "button", id: "copy-link", on: { click: () => void this.copyLink() } }, "Copy link"),
        shareMenu(() => (this.early ? null : this.shown)), this.themeButton()),
      h("div", { class: "progress" }));
    document.body.prepend(h("a", { class: "skip", href: "#answer" }, "To the answer"), top, this.layout, this.status);
    startTips();
    listenEverywhere(take, complain);
    this.undoButton.addEventListener("click", () => this.restore(this.history.undo()));
    this.redoButton.addEventListener("click", () => this.restore(this.history.redo()));
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => this.openLink());
    put(this.headline, h("p", { class: "kicker" }, "training plan"), h("h1", {}, "Planning …"));
    if (link && link.notes.length > 0) this.notices.say(link.notes.join("\n"), "note");
    this.form.show(this.question);
    this.showHistory();
    this.ask();
  }

  change(edit: (question: Question) => void, key: string): void {
    const next = structuredClone(this.question);
    edit(next);
    if (JSON.stringify(next) === JSON.stringify(this.question)) return;
    this.question = next;
    this.history.record(next, key, performance.now());
    this.settle();
  }

  private restore(question: Question | null): void {
    if (!question) return;
    this.question = question;
    (document.activeElement as HTMLElement | null)?.blur?.();
    this.settle();
  }

  private settle(): void {
    this.notices.clear();
    this.form.show(this.question);
    this.showHistory();
    // Browsers refuse many changes of the address per second: the last one of a drag is enough.
    clearTimeout(this.linkTimer);
    this.linkTimer = window.setTimeout(() => history.replaceState(null, "", `#${toFragment(this.question)}`), 250);
    this.ask();
  }

  // Every change ends here. The answer before stays, greyed, until the new one comes.
  private ask(): void {
    if (this.shown && !this.waiting && !this.refused && this.key_of(this.shown.question) === this.key_of(this.question)) {
      this.shown.question = this.question;
      for (const panel of this.panels) panel.retouch(this.question);
      return;
    }
    ++this.generation;
    clearTimeout(this.partialTimer);
    this.engine.side.cancel();
    const known = this.remembered.get(this.key_of(this.question));
    if (known) {
      clearTimeout(this.timer);
      this.engine.main.cancel();
      this.answered(this.question, known, this.generation);
      return;
    }
    this.busy(true);
    if (!this.engine.main.busy) {
      void this.start();
      return;
    }
    clearTimeout(this.timer);
    const left = kPatience - (performance.now() - this.started);
    this.timer = window.setTimeout(() => {
      this.engine.main.cancel();
      void this.start();
    }, Math.max(0, left));
  }

  private async start(): Promise<void> {
    const question = this.question;
    const generation = this.generation;
    this.started = performance.now();
    let answer: Answer;
    try {
      const told = (plan: unknown): void => this.partial(question, plan, generation);
      answer = (await this.engine.main.ask("plan", { ...searchArguments(question), why: false }, { told })) as Answer;
    } catch (error) {
      if (error instanceof Cancelled) return;
      answer = { schema: "nest.error/1", error: { kind: "internal", message: String((error as Error).message) } };
    }
    clearTimeout(this.partialTimer);
    if (isPlan(answer)) delete answer.why_not;  // not asked for yet
    this.remember(question, answer);
    this.answered(question, answer, generation);
    if (generation !== this.generation) {
      clearTimeout(this.timer);
      this.ask();
    }
  }

  // A plan on the way takes the place of the greyed answer; panels that would have to ask for more wait for the last one.
  private partial(question: Question, plan: unknown, generation: number): void {
    clearTimeout(this.partialTimer);
    if (generation !== this.generation || !isPlan(plan)) return;
    this.partialTimer = window.setTimeout(() => {
      const early = JSON.stringify([generation, plan.strategy, plan.stages, expected(plan)]);
      if (early === this.early) return showCloser(this.headline, plan);
      this.early = early;
      this.accept();
      showHeadline(this.headline, plan, (edit, key) => this.change(edit, key), true);
      const context = this.contextOf(question, plan, generation, true);
      this.updatePanels(context);
      byId("answer").classList.remove("stale");
      // Once for a question: what follows is soon to come, and is told when it is proven.
      if (this.spoken !== generation) this.status.textContent = spokenPartial(plan);
      this.spoken = generation;
    }, Math.max(0, kSoon - (performance.now() - this.started)));
  }

  private contextOf(question: Question, answer: Answer, generation: number, partial: boolean): Context {
    const isCurrent = (): boolean => generation === this.generation;
    return {
      question, answer, partial, isCurrent,
      ask: (tool, args, manner) => isCurrent() ? this.engine.side.ask(tool, args, manner) : Promise.reject(new Cancelled()),
      change: (edit, key) => this.change(edit, key),
    };
  }

  private answered(question: Question, answer: Answer, generation: number): void {
    const current = generation === this.generation;
    const refused = failureOf(answer);
    if (refused !== null && this.shown && failureOf(this.shown.answer) === null) {
      if (current) this.refuse(refused);
      return;
    }
    this.accept();
    this.shown = { question, answer };
    this.early = "";
    showHeadline(this.headline, answer, (edit, key) => this.change(edit, key));
    const context = this.contextOf(question, answer, generation, false);
    this.updatePanels(context);
    document.documentElement.dataset.answered = String(generation);
    if (!current) return;
    this.busy(false);
    this.status.textContent = spokenAnswer(answer);
    if (isPlan(answer)) this.form.told(answer);
    document.title = isPlan(answer) ? `${answer.model.title} on ${answer.cluster.devices} × ${answer.cluster.device} – nest` : "nest";
    this.askWhy(context);
  }

  private updatePanels(context: Context): void {
    this.panels.forEach((panel, i) => {
      panel.update(context);
      (this.links[i] as HTMLElement).hidden = panel.element.hidden;
    });
  }

  // What somebody is in the middle of typing takes nothing away: the answer before stays, greyed, below the message.
  private refuse(message: string): void {
    this.refused = true;
    put(this.refusal, h("p", { class: "kicker" }, "the question cannot be answered as it stands"),
      h("p", { class: "message", role: "alert" }, message), h("p", { class: "muted" }, "Below is the answer before."));
    this.busy(false);
    byId("answer").classList.add("stale");
    document.documentElement.dataset.answered = String(this.generation);
  }

  private accept(): void {
    this.refused = false;
    put(this.refusal);
  }

  // What overruling each decision costs takes several searches more: only for those who open it.
  private askWhy(context: Context): void {
    const details = this.headline.querySelector<HTMLDetailsElement>("#why");
    if (!details || !isPlan(context.answer) || context.answer.why_not) return;
    let asked = false;
    const ask = async (): Promise<void> => {
      if (asked || !details.open) return;
      asked = true;
      try {
        const full = await context.ask("plan", { ...searchArguments(context.question), why: true });
        if (!context.isCurrent() || !isPlan(full)) return;
        const answer: Plan = { ...(context.answer as Plan), why_not: full.why_not ?? [], nearest_runs: full.nearest_runs };
        this.remember(context.question, answer);
        this.shown = { question: context.question, answer };
        showHeadline(this.headline, answer, (edit, key) => this.change(edit, key));
      } catch (error) {
        if (!(error instanceof Cancelled)) throw error;
      }
    };
    details.addEventListener("toggle", () => void ask());
    void ask();
  }

  private key_of(question: Question): string {
    return JSON.stringify(searchArguments(question));
  }

  private remember(question: Question, answer: Answer): void {
    if (failureOf(answer) !== null) return;
    this.remembered.set(this.key_of(question), answer);
    const oldest = this.remembered.keys().next().value;
    if (this.remembered.size > kRemembered && oldest !== undefined) this.remembered.delete(oldest);
  }

  private busy(on: boolean): void {
    this.waiting = on;
    document.querySelector(".top")?.classList.toggle("busy", on);
    byId("answer").classList.toggle("stale", on && (this.shown !== null || this.early !== ""));
    byId("answer").setAttribute("aria-busy", String(on));
  }

  private fail(message: string): void {
    this.notices.say(message);
    this.busy(false);
  }

  // Dropped or pasted texts become the model, the cluster, or mine; what cannot be read changes nothing.
  private take(given: Given[]): void {
    try {
      const all = given.map(({ name, text }) => recognise(name, text));
      const imports = all.flatMap((one) => (one.kind === "import" ? [one.document] : []));
      for (const dropped of all) {
        if (dropped.kind === "model") {
          this.change((q) => {
            q.modelDocument = dropped.document;
            q.seq = null;
          }, "model");
        } else if (dropped.kind === "cluster") {
          this.setCluster(dropped.document.name, dropped.document.text);
        } else if (dropped.kind === "mine") {
          this.change((q) => (q.mine = dropped.text), "mine");
          byId("mine").scrollIntoView();
        }
      }
      if (imports.length > 0) this.importFiles(imports);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.notices.say(error.message);
    }
  }

  private setCluster(name: string, text: string): void {
    this.change((q) => {
      q.clusterDocument = { name, text };
      q.edits = {};
      q.dead = [];
      q.devices = null;
    }, "cluster");
  }

  private importFiles(files: Given[]): void {
    const cluster = baseCluster(this.question) ?? clusters["dgx-h100"];
    const device = cluster ? (deviceOf(cluster)?.name ?? cluster.device) : "h100";
    const importer = new Importer(files, String(device),
      (args: Record<string, Json>) => this.engine.side.ask("import", args),
      (yaml) => {
        const made = clusterOfYaml(files.map((file) => file.name).join(" and "), yaml);
        this.setCluster(made.name, made.text);
      });
    put(this.notices.element, importer.element);
    void importer.run();
  }

  private openLink(): void {
    if (`#${toFragment(this.question)}` === location.hash) return;
    const link = fromFragment(location.hash);
    if (!link) return;
    this.question = link.question;
    this.history.record(link.question, "link", performance.now());
    this.settle();
    if (link.notes.length > 0) this.notices.say(link.notes.join("\n"), "note");
  }

  private async copyLink(): Promise<void> {
    clearTimeout(this.linkTimer);
    history.replaceState(null, "", `#${toFragment(this.question)}`);
    const done = await copy(location.href);
    const large = [this.question.modelDocument, this.question.clusterDocument].some((d) => d && d.text.length > kLongestDocument);
    byId("copy-link").textContent = done ? "Copied" : "See the address";
    setTimeout(() => (byId("copy-link").textContent = "Copy link"), 1500);
    if (large) this.notices.say("Your own file is too large for a link: whoever opens it has to drop the file, too.", "note");
  }

  private showHistory(): void {
    this.undoButton.disabled = !this.history.canUndo;
    this.redoButton.disabled = !this.history.canRedo;
  }

  private key(event: KeyboardEvent): void {
    const typing = event.target instanceof HTMLTextAreaElement ||
                   (event.target instanceof HTMLInputElement && event.target.type !== "range");
    if (typing || !(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
    event.preventDefault();
    this.restore(event.shiftKey ? this.history.redo() : this.history.undo());
  }

  private themeButton(): HTMLElement {
    const root = document.documentElement;
    const button = h("button", { type: "button", id: "theme", title: "Light or dark" });
    const dark = (): boolean => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme:dark)").matches;
    const name = (): void => {
      button.textContent = dark() ? "Light" : "Dark";
    };
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      name();
      this.redraw();
    });
    matchMedia("(prefers-color-scheme:dark)").addEventListener("change", () => {
      name();
      this.redraw();
    });
    name();
    return button;
  }

  // Canvases have their colours from the scheme.
  private redraw(): void {
    for (const panel of this.panels) panel.restyle();
  }

  // On a phone the question folds away above the answer.
  private phoneFold(): HTMLElement {
    const narrow = matchMedia("(max-width:60rem)");
    const details = h("details", { id: "question", open: !narrow.matches }, h("summary", {}, "The question"), this.form.element);
    narrow.addEventListener("change", () => (details.open = !narrow.matches));
    return details;
  }
}

new Page();
