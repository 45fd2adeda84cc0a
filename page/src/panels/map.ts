// A map of two dimensions: in each cell the best of everything else. Quick bounds first, then proofs, from the middle
// outwards; what does not fit is hatched, with what is missing.

import { searchArguments } from "../cluster_edit";
import { h, put } from "../dom";
import { Cancelled, Unsettled } from "../engine";
import { gibibytes, integer, seconds, signedPercent, three } from "../format";
import { onHost, strategyText } from "../headline";
import { Panel, type Context } from "../panel";
import { inkOn, stageColour } from "../parts";
import type { Question } from "../state";
import { term } from "../tips";
import { expected, failureOf, isPlan, type Dict, type Json, type MapCell, type Plan } from "../types";

const kQuick = 0.05;  // seconds of the first pass over a cell
const kLonger = 3;    // of the second, at most
const kAxes = ["tp", "pp", "cp", "ep", "mbs", "zero", "seq", "devices", "batch"];
const kNames: Record<string, string> = { seq: "sequence, tokens", batch: "batch, sequences", zero: "ZeRO", mbs: "micro-batch, mbs", tp: "tensor, tp", pp: "stages, pp",
  cp: "context, cp", ep: "experts, ep" };
const kPairs = ["tp,pp", "ep,pp", "cp,seq", "devices,batch"];

function valuesOf(axis: string, plan: Plan): number[] {
  const powers = (most: number): number[] => Array.from({ length: 12 }, (_, i) => 2 ** i).filter((v) => v <= most);
  const around = (middle: number): number[] => [0.25, 0.5, 1, 2, 4].map((f) => Math.round(middle * f)).filter((v) => v >= 1);
  const devices = plan.cluster.devices;
  switch (axis) {
    case "tp": return powers(Math.min(16, devices));
    case "cp": return powers(Math.min(16, devices));
    case "pp": return [...new Set([...powers(Math.min(64, devices)), plan.strategy.pp])].sort((a, b) => a - b).slice(0, 8);
    case "ep": return powers(Math.min(128, devices));
    case "mbs": return powers(16);
    case "zero": return [0, 1, 2, 3];
    case "seq": return around(plan.run.seq);
    case "devices": return around(devices);
    default: return around(plan.run.global_batch);
  }
}

// What a cell asks besides the question.
function cellAt(places: [string, number][]): Dict {
  return Object.fromEntries(places.map(([axis, value]) => [axis === "batch" ? "global_batch" : axis, value]));
}

// Where the plan does without the host's memory, all cells do: what fits only so would look faster than what was proven.
function questionOf(question: Question, axes: string[], plan: Plan): Record<string, Json> {
  const asked = searchArguments(question);
  if (asked.offload === undefined && onHost(plan).length === 0) asked.offload = "never";
  const set = ((asked.set as string[] | undefined) ?? []).filter((word) => !axes.some((axis) => word.startsWith(`${axis}=`)));
  if (set.length > 0) asked.set = set;
  else delete asked.set;
  return asked;
}

function valueOf(axis: string, plan: Plan): number {
  const strategy = plan.strategy as unknown as Record<string, number>;
  switch (axis) {
    case "mbs": return plan.strategy.micro_batch;
    case "zero": return Math.max(...plan.stages.map((stage) => stage.zero));
    case "seq": return plan.run.seq;
    case "devices": return plan.cluster.devices;
    case "batch": return plan.run.global_batch;
    default: return strategy[axis] ?? 1;
  }
}

interface Cell {
  x: number;
  y: number;
  button: HTMLButtonElement;
  found: MapCell | null;
  done: boolean;
}

export class MapPanel extends Panel {
  private readonly table = h("div", { class: "scroll" });
  private readonly pick = h("select", { "aria-label": "dimensions of the map" });
  private readonly told = h("p", { class: "muted", role: "status" });
  private cells: Cell[] = [];

  constructor() {
    super("map", "A map of two dimensions", false);
    const pairs = [...kPairs, ...kAxes.flatMap((x, i) => kAxes.slice(i + 1).map((y) => `${x},${y}`))];
    for (const pair of new Set(pairs)) this.pick.append(h("option", { value: pair }, pair.replace(",", " × ")));
    this.pick.addEventListener("change", () => {
      const [x, y] = this.pick.value.split(",") as [string, string];
      this.setQuestion((q) => {
        q.x = x;
        q.y = y;
      }, "map");
    });
    const ramp = [0, 0.25, 0.5, 0.75, 1].map((at) => `rgb(${stageColour(at * 100, 101).join(",")})`).join(",");
    put(this.body, h("div", { class: "controls" }, h("label", {}, "dimensions", this.pick)), this.table,
      h("ul", { class: "legend" }, h("li", {}, "best ", h("span", { class: "ramp", style: { background: `linear-gradient(90deg,${ramp})` } }), " 3 × as long"),
        h("li", {}, h("span", { class: "swatch open" }), "not proven yet"),
        h("li", {}, h("span", { class: "swatch hatch" }), "nothing fits, GiB missing; –: no such plan")), this.told);
  }

  protected override applies(context: Context): boolean {
    return isPlan(context.answer);
  }

  override restyle(): void {
    this.colour();
  }

  override retouch(question: Question): void {
    const before = this.context?.question;
    super.retouch(question);
    if (this.context && (before?.x !== question.x || before.y !== question.y)) void this.show(this.context);
  }

  protected async show(context: Context): Promise<void> {
    const plan = context.answer as Plan;
    const [x, y] = [context.question.x, context.question.y];
    if (!kAxes.includes(x) || !kAxes.includes(y)) throw new Error(`the map knows ${kAxes.join(", ")}, not ${x} and ${y}`);
    this.pick.value = `${x},${y}`;
    this.say("In each cell the best of everything else, and what it loses against the best of all. Click a cell to take it.");
    const xs = valuesOf(x, plan), ys = valuesOf(y, plan);
    this.cells = [];
    put(this.table, h("table", { class: "map" },
      h("thead", {}, h("tr", {}, h("th", { class: "corner" }, term(y, kNames[y] ?? y), " ↓"), h("th", { class: "across", colspan: xs.length }, term(x, kNames[x] ?? x), " →")),
        h("tr", {}, h("td", {}), ...xs.map((value) => h("th", { scope: "col" }, integer(value))))),
      h("tbody", {}, ...ys.map((yv) => h("tr", {}, h("th", { scope: "row" }, integer(yv)), ...xs.map((xv) => {
        const button = h("button", { type: "button", class: "wait", "aria-label": `${x} ${xv}, ${y} ${yv}: not yet known`,
          on: { click: () => this.take([[x, xv], [y, yv]]) } }, "…");
        this.cells.push({ x: xv, y: yv, button, found: null, done: false });
        return h("td", {}, button);
      }))))));
    const here = [valueOf(x, plan), valueOf(y, plan)] as const;
    const far = (cell: Cell): number => Math.abs(Math.log2(Math.max(cell.x, 0.5) / Math.max(here[0], 0.5))) +
                                        Math.abs(Math.log2(Math.max(cell.y, 0.5) / Math.max(here[1], 0.5)));
    const order = [...this.cells].sort((a, b) => far(a) - far(b));
    // The plan is the best of its own cell.
    const own = this.cells.find((cell) => cell.x === here[0] && cell.y === here[1]);
    if (own && plan.search && (x !== "zero" && y !== "zero")) {
      const p = expected(plan);
      this.fill(own, { outcome: "optimal", iteration_s: p.iteration_s, tokens_per_s: p.samples_per_s * plan.run.seq, strategy: strategyText(plan.strategy) }, true);
      this.tell();
    }
    try {
      for (const quick of [true, false]) {
        for (const cell of order) {
          if (cell.done) continue;
          const args = { ...questionOf(context.question, [x, y], plan), cells: [cellAt([[x, cell.x], [y, cell.y]])] };
          const answer = (await (quick ? context.ask("map", { ...args, time_limit: kQuick }, { later: true })
            : context.ask("map", args, { later: true, most: kLonger }))) as { cells?: MapCell[] };
          if (!context.isCurrent() || !this.cells.includes(cell)) return;
          if (answer instanceof Unsettled) {
            this.leave(cell);
            continue;
          }
          const failed = failureOf(answer);
          if (failed !== null) throw new Error(failed);
          this.fill(cell, answer.cells?.[0] ?? { outcome: "impossible" }, quick);
          this.tell();
        }
      }
      this.tell();
      const left = this.cells.filter((one) => !one.done).length;
      if (left > 0) this.told.append(left === 1 ? ` The other one takes longer than ${kLonger} s.` : ` The others take longer than ${kLonger} s each.`);
    } catch (error) {
      if (!(error instanceof Cancelled)) throw error;
    }
  }

  private tell(): void {
    this.told.textContent = `${this.cells.filter((one) => one.done).length} of ${this.cells.length} cells are proven.`;
  }

  private fill(cell: Cell, found: MapCell, quick: boolean): void {
    const at = `${this.context?.question.x} ${cell.x}, ${this.context?.question.y} ${cell.y}`;
    let told: string;
    if (found.iteration_s !== undefined) {
      cell.found = found;
      cell.done = found.outcome === "optimal";
      told = `${at}: ${seconds(found.iteration_s)}` +
             (cell.done ? ", proven" : `, not below ${seconds(found.lower_bound_s ?? 0)}`) + `\n${found.strategy ?? ""}`;
    } else {
      if (quick && found.outcome === "limit") return;
      const missing = found.missing_bytes;
      cell.found = null;
      cell.done = true;
      cell.button.className = "none";
      cell.button.removeAttribute("style");
      put(cell.button, ...(missing ? [`−${gibibytes(missing)}`, h("br"), "GiB"] : ["–"]));
      told = `${at}: ${missing ? `does not fit, ${gibibytes(missing)} GiB are missing` : (found.reason ?? "no such plan")}`;
    }
    this.explain(cell, told);
    this.colour();
  }

  // What the first pass found stays, if it found anything.
  private leave(cell: Cell): void {
    if (cell.found) return;
    cell.button.textContent = "?";
    this.explain(cell, `${this.context?.question.x} ${cell.x}, ${this.context?.question.y} ${cell.y}: not found out in ${kLonger} s`);
  }

  private explain(cell: Cell, told: string): void {
    cell.button.setAttribute("data-tip", told);
    cell.button.setAttribute("aria-label", told);
  }

  // From the best, dark, to three times as long, light. Where batches or sequences differ, tokens per second are compared.
  private colour(): void {
    const axes = [this.context?.question.x, this.context?.question.y];
    const byTokens = axes.includes("batch") || axes.includes("seq");
    const slow = (found: MapCell): number => byTokens ? 1 / (found.tokens_per_s ?? 1) : (found.iteration_s ?? Infinity);
    const known = this.cells.filter((cell) => cell.found);
    const best = Math.min(...known.map((cell) => slow(cell.found as MapCell)));
    for (const cell of known) {
      const found = cell.found as MapCell;
      const ratio = slow(found) / best;
      const colour = stageColour(Math.min(1, Math.log(ratio) / Math.log(3)) * 100, 101);
      cell.button.className = [ratio === 1 ? "best" : "", cell.done ? "" : "open"].join(" ").trim();
      cell.button.style.background = `rgb(${colour.join(",")})`;
      cell.button.style.color = inkOn(colour);
      put(cell.button, seconds(found.iteration_s ?? 0), h("br"), ratio === 1 ? "best" : ratio < 2 ? signedPercent(ratio - 1) : `${three(ratio)} ×`);
    }
  }

  private take(places: [string, number][]): void {
    this.context?.change((q) => {
      for (const [axis, value] of places) {
        if (axis === "seq" || axis === "devices" || axis === "batch") q[axis] = value;
        else q.limits[axis] = String(value);
      }
    }, "cell");
  }
}
