// Time, devices and cost: which sizes of the cluster no other size beats; and what a tenth more of each resource buys.

import { clusterArgument, baseCluster, deviceOf, searchArguments } from "../cluster_edit";
import { h, put, s } from "../dom";
import { Cancelled, Unsettled } from "../engine";
import { integer, percent, seconds, signedPercent, three } from "../format";
import { strategyText } from "../headline";
import { Panel, type Context } from "../panel";
import type { Question } from "../state";
import { term } from "../tips";
import { expected, isPlan, type ClusterDescription, type Dict, type Json, type Plan } from "../types";

const kWide = 480, kTall = 230, kLeft = 52, kBottom = 30;
const kPatience = 10;  // seconds for one answer: large mixtures take longer, and are told as far as they came

// Price of a million tokens.
function costOf(plan: Plan, price: number): number {
  return ((price / 3600) * 1e6) / expected(plan).tokens_per_s_per_device;
}

export class ParetoPanel extends Panel {
  private readonly price = h("input", { type: "number", min: "0", step: "any", "aria-label": "price of a device-hour" });
  private readonly chart = s("svg", { class: "chart", viewBox: `0 0 ${kWide} ${kTall}`, role: "group", "aria-label": "devices and time" });
  private readonly table = h("div", { class: "scroll" });
  private points: Plan[] = [];
  private readonly unsettled = new WeakSet<Plan>();

  constructor() {
    super("pareto", "Time, devices and cost", false);
    this.price.addEventListener("input", () => {
      const value = Number(this.price.value);
      if (value > 0) {
        this.setQuestion((q) => (q.price = value), "price");
      }
    });
    put(this.body, h("div", { class: "controls" }, h("label", {}, "price of a device-hour", this.price)), this.chart, this.table);
  }

  protected override applies(context: Context): boolean {
    return isPlan(context.answer) && context.question.dead.length === 0;
  }

  override retouch(question: Question): void {
    super.retouch(question);
    if (document.activeElement !== this.price) this.price.value = String(question.price);
    if (this.points.length > 0) this.draw();
  }

  protected async show(context: Context): Promise<void> {
    const plan = context.answer as Plan;
    if (document.activeElement !== this.price) this.price.value = String(context.question.price);
    this.say("The same training on more and on fewer devices. Click a size to take it.");
    this.points = [plan];
    this.draw();
    try {
      for (const factor of [0.5, 2, 0.25, 4, 0.75, 1.5]) {
        const devices = Math.round(plan.cluster.devices * factor);
        if (devices < 1) continue;
        const answer = await context.ask("plan", { ...searchArguments(context.question), devices, why: false }, { later: true, most: kPatience });
        if (!context.isCurrent()) return;
        const found = answer instanceof Unsettled ? answer.plan : answer;
        if (!isPlan(found)) continue;
        if (found !== answer) this.unsettled.add(found);
        this.points.push(found);
        this.draw();
      }
    } catch (error) {
      if (!(error instanceof Cancelled)) throw error;
    }
  }

  private draw(): void {
    const price = Number(this.price.value) || 1;
    const points = [...this.points].sort((a, b) => a.cluster.devices - b.cluster.devices);
    const time = (plan: Plan): number => expected(plan).iteration_s;
    const beaten = (plan: Plan): boolean => points.some((other) => other !== plan && other.cluster.devices <= plan.cluster.devices &&
        time(other) <= time(plan) && costOf(other, price) <= costOf(plan, price));
    const [x0, x1] = [Math.min(...points.map((p) => p.cluster.devices)) / 1.3, Math.max(...points.map((p) => p.cluster.devices)) * 1.3];
    const [y0, y1] = [Math.min(...points.map(time)) / 1.3, Math.max(...points.map(time)) * 1.3];
    const x = (value: number): number => kLeft + (Math.log(value / x0) / Math.log(x1 / x0)) * (kWide - kLeft - 10);
    const y = (value: number): number => kTall - kBottom - (Math.log(value / y0) / Math.log(y1 / y0)) * (kTall - kBottom - 10);
    const front = points.filter((plan) => !beaten(plan));
    const now = (this.context?.answer as Plan | undefined)?.cluster.devices;
    put(this.chart,
      s("line", { x1: kLeft, x2: kWide - 10, y1: kTall - kBottom, y2: kTall - kBottom, stroke: "var(--line)" }),
      s("line", { x1: kLeft, x2: kLeft, y1: 10, y2: kTall - kBottom, stroke: "var(--line)" }),
      s("text", { x: kWide - 10, y: kTall - 4, class: "e axis" }, "devices"), s("text", { x: 4, y: 10, class: "axis" }, "per step"),
      s("polyline", { points: front.map((p) => `${x(p.cluster.devices)},${y(time(p))}`).join(" "), fill: "none", stroke: "var(--recompute)", "stroke-width": 1.5 }),
      ...points.flatMap((plan) => [
        s("circle", { cx: x(plan.cluster.devices), cy: y(time(plan)), r: plan.cluster.devices === now ? 8 : 6, tabindex: "0", role: "button",
          fill: beaten(plan) ? "var(--bubble)" : "var(--compute)", stroke: plan.cluster.devices === now ? "var(--ink)" : "none", "stroke-width": 2, style: { cursor: "pointer" },
          "aria-label": `${plan.cluster.devices} devices, ${seconds(time(plan))}`,
          data: { tip: `${integer(plan.cluster.devices)} devices: ${seconds(time(plan))}\n${strategyText(plan.strategy)}` },
          on: { click: () => this.take(plan), keydown: (event: KeyboardEvent) => event.key === "Enter" && this.take(plan) } }),
        s("text", { x: x(plan.cluster.devices), y: kTall - kBottom + 14, class: "c axis" }, integer(plan.cluster.devices)),
        s("text", { x: x(plan.cluster.devices) + 10, y: y(time(plan)) - 7 }, seconds(time(plan)))]));
    put(this.table, h("table", { class: "wide-table" }, h("thead", {}, h("tr", {}, h("th", { class: "n" }, "devices"), h("th", { class: "n" }, "per step"), h("th", { class: "n" }, "a million tokens"), h("th", {}, "plan"), h("th", {}, ""))),
      h("tbody", {}, ...points.map((plan) => h("tr", {}, h("td", { class: "n" }, integer(plan.cluster.devices)), h("td", { class: "n" }, seconds(time(plan))),
        h("td", { class: "n" }, three(costOf(plan, price))), h("td", { class: "mono" }, strategyText(plan.strategy)),
        h("td", {}, this.unsettled.has(plan) ? h("span", { class: "muted" }, `not settled in ${kPatience} s`)
          : beaten(plan) ? h("span", { class: "muted" }, "beaten") : term("pareto", "Pareto")))))));
  }

  private take(plan: Plan): void {
    this.context?.change((q) => (q.devices = plan.cluster.devices), "devices");
  }
}

// "450GB/s" -> "495GB/s": the number in front grows, the unit stays.
export function grown(value: Json, factor: number): Json {
  if (typeof value === "number") return value * factor;
  if (typeof value === "string") return value.replace(/^\s*[0-9.]+(?:[eE][+-]?\d+)?/, (number) => String(Number((Number(number) * factor).toPrecision(12))));
  if (value && typeof value === "object" && !Array.isArray(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, grown(inner, factor)]));
  }
  return value;
}

type Row = [name: string, gain: number | null, instead: string];  // of a number, what there is to say

export class SensitivityPanel extends Panel {
  private readonly strip = h("div", {});

  constructor() {
    super("sensitivity", "What a tenth more buys", false);
    put(this.body, this.strip);
  }

  protected override applies(context: Context): boolean {
    return isPlan(context.answer) && baseCluster(context.question) !== null;
  }

  protected async show(context: Context): Promise<void> {
    this.say("10 % more of one resource, everything planned anew: how much shorter a step gets.");
    const plan = context.answer as Plan;
    const where = clusterArgument(context.question);
    const base = typeof where.cluster === "string" ? baseCluster(context.question) : where.cluster;
    if (!base) return;
    const device = deviceOf(base);
    const variants: [string, ClusterDescription][] = [];
    if (device) {
      for (const [key, name] of [["peak", "arithmetic"], ["memory_bandwidth", "memory bandwidth"], ["memory", "memory"]] as const) {
        if (device[key] === undefined) continue;
        variants.push([name, { ...structuredClone(base), device: { ...(structuredClone(device) as Dict), [key]: grown(device[key] as Json, 1.1) } }]);
      }
    }
    base.levels?.forEach((level, i) => {
      const made = structuredClone(base);
      (made.levels as Dict[])[i] = { ...(level as Dict), bandwidth: grown(level.bandwidth, 1.1) };
      // The innermost level is the device's own links: no more goes through it than they carry.
      if (i === 0 && device?.link_bandwidth !== undefined) {
        made.device = { ...(structuredClone(device) as Dict), link_bandwidth: grown(device.link_bandwidth as Json, 1.1) };
      }
      variants.push([`bandwidth into ${String(level.name ?? `level ${i + 1}`)}`, made]);
    });
    const rows: Row[] = variants.map(([name]) => [name, null, "…"]);
    this.draw(rows);
    try {
      for (const [i, [name, cluster]] of variants.entries()) {
        const answer = await context.ask("plan", { ...searchArguments(context.question), cluster: cluster as unknown as Json, why: false }, { later: true, most: kPatience });
        if (!context.isCurrent()) return;
        rows[i] = isPlan(answer) ? [name, 1 - expected(answer).iteration_s / expected(plan).iteration_s, ""]
          : [name, null, answer instanceof Unsettled ? `not settled in ${kPatience} s` : "not known"];
        this.draw(rows);
      }
    } catch (error) {
      if (!(error instanceof Cancelled)) throw error;
    }
  }

  private draw(rows: Row[]): void {
    const told = ([, gain, instead]: Row): string => instead || (Math.abs(gain ?? 0) < 5e-5 ? percent(0) : signedPercent(-(gain ?? 0)));
    const bar = ([, gain, instead]: Row): number => instead ? 0 : Math.max(0, gain ?? 0);
    const most = Math.max(0.1, ...rows.map(bar));
    put(this.strip, h("table", { class: "wide-table" }, h("tbody", {}, ...rows.map((row) => h("tr", {}, h("td", {}, row[0]),
      h("td", { class: "n" }, told(row)),
      h("td", { class: "bar-cell" }, h("span", { class: "swatch", style: { width: `${(bar(row) / most) * 100}%`, background: "var(--zero)" } })))))));
  }
}
