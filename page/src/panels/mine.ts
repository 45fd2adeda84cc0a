// "Mine" beside "best": somebody's launch line or strategy, what differs, and which change mends it.

import { jobArguments } from "../cluster_edit";
import { h, put } from "../dom";
import { Cancelled } from "../engine";
import { integer, plural, seconds, signedPercent } from "../format";
import { strategyText } from "../headline";
import { Panel, type Context } from "../panel";
import { kPartNames } from "../parts";
import type { Question } from "../state";
import { term } from "../tips";
import { expected, failureOf, isPlan, kParts, type Json, type Plan } from "../types";

interface Why {
  schema: string;
  framework: string;
  fits: boolean;
  misfit?: string;
  yours: Plan;
  best: Plan | null;
  terms: { name: string; yours_s: number; best_s: number; about: string; change?: string; gain_s?: number }[];
  changes: { options: string; iteration_s: number }[];
  recommended: { options: string; iteration_s: number } | null;
  notes: string[];
}

interface Row {
  name: string;
  mine: number;
  best: number;
  about: string;
  fix?: [change: string, what: string];  // the single change that helps it most, and what that does
}

// "tp=8 sp pp=4" or "tp=8,sp=1,pp=4" as the planner takes it; null where it is a launch line.
export function strategyOf(text: string): string | null {
  const words = text.trim().split(/[\s,]+/).filter(Boolean);
  if (words.length === 0 || !words.every((word) => /^[a-z_]+(=[\w.+-]+)?$/.test(word)) || !words.some((word) => word.includes("="))) return null;
  return words.map((word) => (word.includes("=") ? word : `${word}=1`)).join(",");
}

// Of all stages, where they are alike.
function ofStages(plan: Plan, read: (stage: Plan["stages"][0]) => string): string | null {
  const first = plan.stages[0] ? read(plan.stages[0]) : null;
  return plan.stages.every((stage) => read(stage) === first) ? first : null;
}

const kDecisions: [string, (plan: Plan) => string | null][] = [
  ["tp", (p) => String(p.strategy.tp)], ["sp", (p) => (p.strategy.sp ? "1" : "0")], ["cp", (p) => String(p.strategy.cp)], ["ep", (p) => String(p.strategy.ep)],
  ["etp", (p) => (p.strategy.ep > 1 ? String(p.strategy.etp) : null)], ["pp", (p) => String(p.strategy.pp)], ["vpp", (p) => String(p.strategy.virtual_stages)],
  ["schedule", (p) => p.strategy.schedule], ["mbs", (p) => String(p.strategy.micro_batch)], ["zero", (p) => ofStages(p, (stage) => String(stage.zero))],
  ["recompute", (p) => ofStages(p, (stage) => stage.recompute)],
];

// In a strategy's words, one of them changed. Chunks bring the interleaved schedule along, and fewer stages cannot hold any.
export function withChange(strategy: string, key: string, value: string): string {
  const follow: Record<string, string[]> = { vpp: ["schedule"], schedule: ["vpp"], pp: value === "1" ? ["vpp", "schedule"] : [], tp: value === "1" ? ["sp"] : [] };
  const gone = [key, "dp", ...(follow[key] ?? [])];
  return [...strategy.split(",").filter((word) => !gone.includes(word.split("=")[0] ?? "")), `${key}=${value}`].join(",");
}

interface Tried {
  name: string;
  plan: Plan;
}

// What each term loses most by, of the changes that were tried.
function fixOf(read: (plan: Plan) => number, mine: Plan, best: number, tried: Tried[]): [string, string] | undefined {
  const now = read(mine);
  if (now - best < 0.005 * expected(mine).iteration_s) return undefined;
  const most = tried.reduce<Tried | null>((a, b) => (a === null || read(b.plan) < read(a.plan) ? b : a), null);
  if (!most || now - read(most.plan) < 0.1 * (now - best)) return undefined;
  const whole = expected(most.plan).iteration_s / expected(mine).iteration_s - 1;
  return [most.name, `${seconds(now)} → ${seconds(read(most.plan))}; ` +
    (most.plan.evaluation.fits ? `the whole step ${signedPercent(whole)}` : "alone it does not fit")];
}

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
    this.tell(why.yours, why.best, why.terms.map((t) => ({ name: t.name, mine: t.yours_s, best: t.best_s, about: t.about,
      ...(t.change ? { fix: [t.change, `a step takes ${seconds(t.gain_s ?? 0)} less`] as [string, string] } : {}) })),
      why.fits ? null : (why.misfit ?? "does not fit"),
      changes.length > 0 ? h("div", {}, h("h3", {}, "What to change"), h("ol", {}, ...changes)) : null,
      why.notes, runOf(why.yours));
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
    const tell = (tried: Tried[] | null): void => this.tell(answer, best, kParts.map((part) => {
      const goal = best ? expected(best).breakdown_s[part] : NaN;
      const fix = tried ? fixOf((plan) => expected(plan).breakdown_s[part], answer, goal, tried) : undefined;
      return { name: kPartNames[part], mine: expected(answer).breakdown_s[part], best: goal, about: "", ...(fix ? { fix } : {}) };
    }), answer.evaluation.fits ? null : (answer.evaluation.misfit ?? "does not fit"), best ? changesOf(answer, tried) : null, []);
    tell(null);
    if (!best) return;
    // Each decision in which the best plan differs, taken over alone.
    const tried: Tried[] = [];
    for (const [key, of] of kDecisions) {
      const wanted = of(best);
      if (wanted === null || of(answer) === wanted) continue;
      const changed = await context.ask("evaluate", { ...job, strategy: withChange(strategy, key, wanted) }, kLastOnly);
      if (!context.isCurrent() || strategyOf(this.context?.question.mine ?? "") !== strategy) return;
      if (isPlan(changed)) tried.push({ name: `${key}=${wanted}`, plan: changed });
    }
    tell(tried);
  }

  private tell(mine: Plan, best: Plan | null, rows: Row[], misfit: string | null, changes: HTMLElement | null, notes: string[], launched = ""): void {
    const shown = rows.filter((row) => row.mine > 0 || row.best > 0);
    const widest = Math.max(...shown.map((row) => Math.abs(row.mine - row.best)).filter(Number.isFinite), 1e-9);
    const line = (name: string, plan: Plan): HTMLElement => h("div", {}, h("dt", {}, name), h("dd", {}, h("code", {}, strategyText(plan.strategy))));
    put(this.result, h("dl", { class: "pairs" }, line("mine", mine), best ? line("best", best) : null, launched ? h("div", {}, h("dt", {}, "as"), h("dd", { class: "muted" }, launched)) : null),
      h("div", { class: "scroll" }, h("table", { class: "wide-table" },
      h("thead", {}, h("tr", {}, h("th", {}, "where it is"), h("th", { class: "n" }, "mine"), h("th", { class: "n" }, "best"), h("th", { class: "n" }, "difference"), h("th", { class: "bar-cell" }, ""))),
      h("tbody", {}, h("tr", {}, h("th", {}, h("strong", {}, "one step")), h("td", { class: "n" }, h("strong", {}, seconds(expected(mine).iteration_s))),
        h("td", { class: "n" }, best ? h("strong", {}, seconds(expected(best).iteration_s)) : "–"),
        h("td", { class: "n" }, best ? signedPercent(expected(mine).iteration_s / expected(best).iteration_s - 1) : ""), h("td", {})),
      ...shown.flatMap((row) => {
        const difference = row.mine - row.best;
        return [h("tr", { class: row.fix ? "fixed" : "" }, h("td", {}, row.name, row.about ? h("span", { class: "more" }, row.about) : null), h("td", { class: "n" }, seconds(row.mine)),
          h("td", { class: "n" }, seconds(row.best)), h("td", { class: "n" }, Number.isFinite(difference) ? difference === 0 ? "0 s" : `${difference > 0 ? "+" : "−"}${seconds(Math.abs(difference))}` : ""),
          h("td", { class: "bar-cell" }, Number.isFinite(difference) ? h("span", { class: "swatch", style: { width: `${(Math.abs(difference) / widest) * 100}%`, background: difference > 0 ? "var(--tp)" : "var(--zero)" } }) : null)),
          row.fix ? h("tr", {}, h("td", { colspan: 5, class: "fix" }, "change ", h("code", {}, row.fix[0]), `: ${row.fix[1]}`)) : null];
      })))),
      misfit !== null && h("p", { class: "message" }, h("strong", {}, "Mine does not fit: "), misfit),
      changes, ...notes.map((note) => h("p", { class: "muted" }, note)),
      h("p", { class: "muted" }, "Both are priced by the same ", term("proof", "cost model"), "."));
  }
}

// What a launch line says of itself, which may be another training than that of the page.
function runOf({ cluster, run }: Plan): string {
  return `the launch line says: ${plural(cluster.devices, "device")}, ${plural(run.global_batch, "sequence")} of ${integer(run.seq)} tokens, ${run.precision}, ${run.stack}`;
}

// Alone, each, as far as it helps: whoever changes one thing at a time begins with the first.
function changesOf(mine: Plan, tried: Tried[] | null): HTMLElement {
  if (tried === null) return h("p", { class: "waiting" }, "trying one change after the other …");
  const time = (plan: Plan): number => expected(plan).iteration_s;
  const good = tried.filter(({ plan }) => plan.evaluation.fits && (!mine.evaluation.fits || time(plan) < time(mine))).sort((a, b) => time(a.plan) - time(b.plan));
  if (tried.length === 0) return h("p", {}, "Mine decides as the best plan does.");
  if (good.length === 0) {
    return h("p", {}, mine.evaluation.fits ? "No single change towards the best plan makes it faster: they help together." : "No single change towards the best plan makes it fit.");
  }
  return h("div", {}, h("h3", {}, "One change at a time"), h("ol", {}, ...good.map(({ name, plan }, i) => h("li", {}, h("code", {}, name), `: ${seconds(time(plan))} per step, ` +
    `${mine.evaluation.fits ? signedPercent(time(plan) / time(mine) - 1) : "and fits"}${i === 0 ? " (change this first)" : ""}`))));
}

// A launch line says its own devices, batch and sequence: only where and with what it runs is taken from the question.
function launchJob(asked: Record<string, Json>): Record<string, Json> {
  const { model, cluster, stack, precision } = asked;
  return { ...(model !== undefined ? { model } : {}), ...(cluster !== undefined ? { cluster } : {}),
    ...(stack !== undefined ? { stack } : {}), ...(precision !== undefined ? { precision } : {}) };
}
