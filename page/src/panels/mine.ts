// "Mine" beside "best": somebody's launch line or strategy, what differs, and which change mends it.

import { jobArguments } from "../cluster_edit";
import { h, put } from "../dom";
import { Cancelled } from "../engine";
import { clip, seconds, signedPercent } from "../format";
import { strategyText } from "../headline";
import { Panel, type Context } from "../panel";
import { kPartNames } from "../parts";
import type { Question } from "../state";
import { term } from "../tips";
import { expected, failureOf, isPlan, kParts, type Json, type Plan, type Strategy } from "../types";

interface Why {
  schema: string;
  framework: string;
  fits: boolean;
  misfit?: string;
  yours: Plan;
  best: Plan | null;
  terms: { name: string; yours_s: number; best_s: number; about: string }[];
  changes: { options: string; iteration_s: number }[];
  recommended: { options: string; iteration_s: number } | null;
  notes: string[];
}

interface Row {
  name: string;
  mine: number;
  best: number;
  about: string;
}

// "tp=8 sp pp=4" or "tp=8,sp=1,pp=4" as the planner takes it; null where it is a launch line.
export function strategyOf(text: string): string | null {
  const words = text.trim().split(/[\s,]+/).filter(Boolean);
  if (words.length === 0 || !words.every((word) => /^[a-z_]+(=[\w.+-]+)?$/.test(word)) || !words.some((word) => word.includes("="))) return null;
  return words.map((word) => (word.includes("=") ? word : `${word}=1`)).join(",");
}

const kDecisions: [string, (s: Strategy) => string][] = [
  ["tp", (s) => String(s.tp)], ["sp", (s) => (s.sp ? "1" : "0")], ["cp", (s) => String(s.cp)], ["ep", (s) => String(s.ep)],
  ["pp", (s) => String(s.pp)], ["vpp", (s) => String(s.virtual_stages)], ["mbs", (s) => String(s.micro_batch)],
];

const kLastOnly = { instead: "mine" };  // while somebody types

export class MinePanel extends Panel {
  private readonly box = h("textarea", { "aria-label": "your launch line or strategy", spellcheck: "false", rows: 3,
    placeholder: "tp=8 sp pp=4 mbs=1, or torchrun … pretrain_gpt.py --tensor-model-parallel-size 8 …" });
  private readonly result = h("div", {});

  constructor() {
    super("mine", "Mine beside best", false);
    this.box.addEventListener("input", () => {
      const text = this.box.value;
      this.setQuestion((q) => (q.mine = text.trim()), "mine");
    });
    put(this.body, this.box, this.result);
    this.say("Paste a launch line or a strategy: what it costs beside the best plan, term by term, and what to change first.");
  }

  override retouch(question: Question): void {
    const before = this.context?.question.mine;
    super.retouch(question);
    if (this.context && before !== question.mine) void this.show(this.context);
  }

  protected async show(context: Context): Promise<void> {
    const text = context.question.mine;
    if (document.activeElement !== this.box) this.box.value = text;
    if (text === "") {
      put(this.result);
      return;
    }
    const strategy = strategyOf(text);
    try {
      if (strategy !== null) await this.compareStrategy(context, strategy);
      else await this.compareLaunch(context, text);
    } catch (error) {
      if (!(error instanceof Cancelled)) throw error;
    }
  }

  private async compareLaunch(context: Context, text: string): Promise<void> {
    const asked = jobArguments(context.question);
    const answer = await context.ask("evaluate", { ...launchJob(asked), from: text }, kLastOnly);
    if (!context.isCurrent() || this.context?.question.mine !== text) return;
    const failed = failureOf(answer);
    if (failed !== null) {
      put(this.result, h("p", { class: "message" }, failed));
      return;
    }
    const why = answer as Why;
    const changes = why.changes.map((change) => h("li", {}, h("code", {}, change.options), `: ${seconds(change.iteration_s)} per step`,
      why.recommended?.options === change.options ? " (change this first)" : ""));
    this.tell(why.yours, why.best, why.terms.map((t) => ({ name: t.name, mine: t.yours_s, best: t.best_s, about: t.about })),
      why.fits ? null : (why.misfit ?? "does not fit"),
      changes.length > 0 ? h("div", {}, h("h3", {}, "What to change"), h("ol", {}, ...changes)) : null,
      why.notes);
  }

  private async compareStrategy(context: Context, strategy: string): Promise<void> {
    const job = jobArguments(context.question);
    const answer = await context.ask("evaluate", { ...job, strategy }, kLastOnly);
    if (!context.isCurrent() || strategyOf(this.context?.question.mine ?? "") !== strategy) return;
    if (!isPlan(answer)) {
      put(this.result, h("p", { class: "message" }, failureOf(answer) ?? "cannot be priced"));
      return;
    }
    const best = isPlan(context.answer) ? context.answer : null;
    const rows = kParts.map((part) => ({ name: kPartNames[part], mine: expected(answer).breakdown_s[part],
      best: best ? expected(best).breakdown_s[part] : NaN, about: "" }));
    const changes = h("div", {});
    this.tell(answer, best, rows, answer.evaluation.fits ? null : (answer.evaluation.misfit ?? "does not fit"), changes, []);
    if (best) await this.changesOf(context, strategy, answer, best, changes);
  }

  // Each decision in which the best plan differs, taken over alone.
  private async changesOf(context: Context, strategy: string, mine: Plan, best: Plan, place: HTMLElement): Promise<void> {
    const found: { name: string; plan: Plan }[] = [];
    for (const [key, of] of kDecisions) {
      if (of(mine.strategy) === of(best.strategy)) continue;
      const words = strategy.split(",").filter((word) => !word.startsWith(`${key}=`) && !word.startsWith("dp="));
      const answer = await context.ask("evaluate", { ...jobArguments(context.question), strategy: [...words, `${key}=${of(best.strategy)}`].join(",") }, kLastOnly);
      if (!context.isCurrent()) return;
      if (isPlan(answer) && answer.evaluation.fits) found.push({ name: `${key}=${of(best.strategy)}`, plan: answer });
    }
    found.sort((a, b) => expected(a.plan).iteration_s - expected(b.plan).iteration_s);
    if (found.length === 0) return;
    put(place, h("h3", {}, "One change at a time"), h("ol", {}, ...found.map(({ name, plan }) => h("li", {}, h("code", {}, name), `: ${seconds(expected(plan).iteration_s)} per step, ` +
      signedPercent(expected(plan).iteration_s / expected(mine).iteration_s - 1)))));
  }

  private tell(mine: Plan, best: Plan | null, rows: Row[], misfit: string | null, changes: HTMLElement | null, notes: string[]): void {
    const shown = rows.filter((row) => row.mine > 0 || row.best > 0);
    const widest = Math.max(...shown.map((row) => Math.abs(row.mine - row.best)).filter(Number.isFinite), 1e-9);
    put(this.result, h("p", {}, "mine ", h("code", { class: "strategy" }, clip(strategyText(mine.strategy))), best ? " best " : "",
      best ? h("code", { class: "strategy" }, strategyText(best.strategy)) : null),
      h("div", { class: "scroll" }, h("table", { class: "wide-table" },
      h("thead", {}, h("tr", {}, h("th", {}, ""), h("th", { class: "n" }, "mine"), h("th", { class: "n" }, "best"), h("th", { class: "n" }, "difference"), h("th", { class: "bar-cell" }, ""))),
      h("tbody", {}, h("tr", {}, h("th", {}, h("strong", {}, "one step")), h("td", { class: "n" }, h("strong", {}, seconds(expected(mine).iteration_s))),
        h("td", { class: "n" }, best ? h("strong", {}, seconds(expected(best).iteration_s)) : "–"),
        h("td", { class: "n" }, best ? signedPercent(expected(mine).iteration_s / expected(best).iteration_s - 1) : ""), h("td", {})),
      ...shown.map((row) => {
        const difference = row.mine - row.best;
        return h("tr", {}, h("td", {}, row.name, row.about ? h("span", { class: "more" }, row.about) : null), h("td", { class: "n" }, seconds(row.mine)),
          h("td", { class: "n" }, seconds(row.best)), h("td", { class: "n" }, Number.isFinite(difference) ? `${difference >= 0 ? "+" : "−"}${seconds(Math.abs(difference))}` : ""),
          h("td", { class: "bar-cell" }, Number.isFinite(difference) ? h("span", { class: "swatch", style: { width: `${(Math.abs(difference) / widest) * 100}%`, background: difference > 0 ? "var(--tp)" : "var(--zero)" } }) : null));
      })))),
      misfit !== null && h("p", { class: "message" }, h("strong", {}, "Mine does not fit: "), misfit),
      changes, ...notes.map((note) => h("p", { class: "muted" }, note)),
      h("p", { class: "muted" }, "Both are priced by the same ", term("proof", "cost model"), "."));
  }
}

// A launch line says its own devices, batch and sequence: only where and with what it runs is taken from the question.
function launchJob(asked: Record<string, Json>): Record<string, Json> {
  const { model, cluster, stack, precision } = asked;
  return { ...(model !== undefined ? { model } : {}), ...(cluster !== undefined ? { cluster } : {}),
    ...(stack !== undefined ? { stack } : {}), ...(precision !== undefined ? { precision } : {}) };
}
