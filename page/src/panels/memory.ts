// Memory per stage against the line of the device, which can be dragged: the plan follows.

import { h, put, s } from "../dom";
import { gibibytes, plural } from "../format";
import { Panel, type Context } from "../panel";
import { kMemoryColours, legend } from "../parts";
import type { Change } from "../question";
import { kMemoryParts, isNoPlan, isPlan, type NoPlan, type Plan } from "../types";

const kLeft = 34, kRight = 52, kTop = 30, kWide = 520;
const kGiB = 2 ** 30;

const kNames: Record<string, string> = { optimizer: "optimizer state", working: "workspace" };
const kHeads = (): SVGElement[] => [s("text", { x: kLeft - 8, y: 14, class: "e axis" }, "stage"), s("text", { x: kWide, y: 14, class: "e axis" }, "GiB")];

export class MemoryPanel extends Panel {
  private readonly bars = s("g");
  private readonly chart = s("svg", { class: "chart", role: "group", "aria-label": "memory per stage" });
  private readonly handle: SVGGElement;
  private readonly label = s("text", { y: 12, class: "c" });
  private readonly table = h("div", {});
  private readonly legend: HTMLElement;
  private scale = 100;     // GiB at the right edge
  private limit = 80;      // GiB of the line
  private dragging = false;
  private change: Change = () => undefined;

  constructor() {
    super("memory", "Memory of every stage", true);
    this.handle = s("g", { class: "hbm", tabindex: "0", role: "slider", "aria-label": "memory of a device, GiB",
      "aria-orientation": "horizontal", data: { tip: "Memory of one device. Drag the line, or use the arrow keys: the plan follows." } },
      s("rect", { x: -9, y: 0, width: 18, height: 100, fill: "transparent" }), s("line", { y1: 18, y2: 100 }),
      s("circle", { class: "grip", cy: 20, r: 6 }), this.label);
    this.chart.append(this.bars, this.handle);
    this.legend = legend([...kMemoryParts.map((part): [string, string, string] =>
      [kMemoryColours[part], part === "optimizer" ? "optimizer state" : part, kNames[part] ?? part]),
      [kMemoryColours.margin, "margin", "margin and context"]]);
    put(this.body, this.legend, this.chart, this.table);
    this.handle.addEventListener("pointerdown", (event) => {
      this.dragging = true;
      this.handle.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    this.handle.addEventListener("pointermove", (event) => {
      if (this.dragging) this.move(this.gibAt(event.clientX));
    });
    for (const end of ["pointerup", "pointercancel"] as const) {
      this.handle.addEventListener(end, () => (this.dragging = false));
    }
    this.handle.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.move(this.limit + step);
    });
  }

  protected override applies(context: Context): boolean {
    return isPlan(context.answer) || (isNoPlan(context.answer) && context.answer.closest !== undefined);
  }

  protected show(context: Context): void {
    this.change = context.change;
    const answer = context.answer as Plan | NoPlan;
    const limit = isPlan(answer) ? answer.evaluation.device_memory_bytes : answer.device_memory_bytes;
    const most = isPlan(answer) ? Math.max(...answer.evaluation.stages.map((stage) => stage.needed_bytes))
                                : (answer.closest?.needed_bytes ?? limit);
    if (!this.dragging) {
      this.limit = limit / kGiB;
      // The scale stays while it is good enough, so that the line does not jump under the hand.
      const wanted = Math.max(most, limit) / kGiB;
      if (wanted > this.scale * 0.93 || wanted < this.scale * 0.45) this.scale = wanted * 1.3;
    }
    this.legend.hidden = !isPlan(answer);
    if (isPlan(answer)) this.draw(answer);
    else this.drawNone(answer);
    this.place();
  }

  private x(gib: number): number {
    return kLeft + (Math.min(gib, this.scale) / this.scale) * (kWide - kLeft - kRight);
  }

  private gibAt(clientX: number): number {
    const box = this.chart.getBoundingClientRect();
    const x = ((clientX - box.left) / box.width) * kWide;
    return Math.min(this.scale, Math.max(1, ((x - kLeft) / (kWide - kLeft - kRight)) * this.scale));
  }

  private move(gib: number): void {
    this.limit = Math.max(1, Math.round(gib * 10) / 10);
    this.place();
    const text = `${this.limit}GiB`;
    this.change((q) => (q.edits.hbm = text), "edit hbm");
  }

  private place(): void {
    this.handle.setAttribute("transform", `translate(${this.x(this.limit)},0)`);
    this.handle.setAttribute("aria-valuenow", this.limit.toFixed(1));
    this.handle.setAttribute("aria-valuemin", "1");
    this.handle.setAttribute("aria-valuemax", this.scale.toFixed(0));
    this.label.textContent = `${this.limit.toFixed(1)} GiB`;
  }

  private size(height: number): void {
    this.chart.setAttribute("viewBox", `0 0 ${kWide} ${height}`);
    this.handle.querySelector("line")?.setAttribute("y2", String(height));
    this.handle.querySelector("rect")?.setAttribute("height", String(height));
  }

  private draw(plan: Plan): void {
    const stages = plan.stages;
    const fullest = plan.evaluation.stages.reduce((best, stage, i, all) =>
        stage.needed_bytes > (all[best]?.needed_bytes ?? 0) ? i : best, 0);
    const worst = plan.evaluation.stages[fullest];
    this.say(`Stage ${fullest} is the fullest: ${gibibytes(worst?.needed_bytes ?? 0)} of ` +
             `${gibibytes(plan.evaluation.device_memory_bytes)} GiB, at ${worst?.moment ?? "its peak"}. Drag the line.`);
    const row = stages.length <= 8 ? 26 : stages.length <= 20 ? 18 : Math.max(6, 380 / stages.length);
    const every = Math.max(1, Math.ceil(13 / row));
    const rows: SVGElement[] = [];
    stages.forEach((stage, i) => {
      const y = kTop + i * row;
      let at = 0;
      const part = (bytes: number, colour: string, name: string): void => {
        if (bytes <= 0) return;
        const from = this.x(at / kGiB), to = this.x((at + bytes) / kGiB);
        rows.push(s("rect", { x: from, y, width: Math.max(0, to - from), height: row * 0.74, fill: `var(${colour})`,
          class: row > 10 ? "gapped" : "", data: { tip: `stage ${i}, ${kNames[name] ?? name}: ${gibibytes(bytes)} GiB` } }));
        at += bytes;
      };
      for (const name of kMemoryParts) part(stage.memory_bytes[name], kMemoryColours[name], name);
      const needed = plan.evaluation.stages[i]?.needed_bytes ?? at;
      part(needed - at, kMemoryColours.margin, "margin and context");
      if (i % every === 0) {
        rows.push(s("text", { x: kLeft - 8, y: y + row * 0.55, class: "e axis" }, String(i)),
          s("text", { x: kWide, y: y + row * 0.55, class: "e" }, gibibytes(needed)));
      }
    });
    put(this.bars, ...kHeads(), ...rows);
    this.size(kTop + stages.length * row + 4);
    put(this.table, h("details", {}, h("summary", {}, `${plural(stages.length, "stage")} in GiB`), h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, "stage"), h("th", {}, "layers"), ...kMemoryParts.map((part) => h("th", { class: "n" }, kNames[part] ?? part)), h("th", { class: "n" }, "needed"))),
      h("tbody", {}, ...stages.map((stage, i) => h("tr", {}, h("td", {}, String(i)), h("td", {}, stage.layers.join("–")),
        ...kMemoryParts.map((part) => h("td", { class: "n" }, gibibytes(stage.memory_bytes[part]))),
        h("td", { class: "n" }, gibibytes(plan.evaluation.stages[i]?.needed_bytes ?? 0)))))))));
  }

  private drawNone(answer: NoPlan): void {
    const closest = answer.closest;
    if (!closest) return;
    this.say(`The closest plan, ${closest.strategy}, lacks ${gibibytes(closest.missing_bytes)} GiB on stage ${closest.stage}. ` +
             "Drag the line to give every device more.");
    put(this.bars, ...kHeads(), s("rect", { x: kLeft, y: kTop, width: this.x(closest.needed_bytes / kGiB) - kLeft, height: 20, fill: "var(--over)" }),
      s("text", { x: kLeft - 8, y: kTop + 14, class: "e axis" }, String(closest.stage)),
      s("text", { x: kWide, y: kTop + 14, class: "e" }, gibibytes(closest.needed_bytes)));
    this.size(kTop + 30);
    put(this.table);
  }
}
