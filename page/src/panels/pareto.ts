// Time, devices and cost: which sizes of the cluster no other size beats; and what a tenth more of each resource buys.

import { clusterArgument, baseCluster, deviceOf, searchArguments } from "../cluster_edit";
import { h, put, s } from "../dom";
import { Cancelled, Unsettled } from "../engine";
import { clip, integer, percent, seconds, signedPercent, three } from "../format";
import { strategyText } from "../headline";
import { Panel, type Context } from "../panel";
import type { Question } from "../state";
import { term } from "../tips";
import { expected, isPlan, type ClusterDescription, type Dict, type Json, type Plan } from "../types";

const kWide = 480, kTall = 190, kLeft = 52, kGap = 34, kCost = 78;  // time above, cost below
const kPatience = 10;  // seconds for one answer: large mixtures take longer, and are told as far as they came

// Price of a million tokens.
function costOf(plan: Plan, price: number): number {
  return ((price / 3600) * 1e6) / expected(plan).tokens_per_s_per_device;
}

export class ParetoPanel extends Panel {
  private readonly price = h("input", { type: "number", min: "0", step: "any", "aria-label": "price of a device-hour" });
  private readonly chart = s("svg", { class: "chart", viewBox: `0 0 ${kWide} ${kTall + kGap + kCost + 20}`, role: "group", "aria-label": "time of a step and cost of tokens by devices" });
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
    put(this.body, h("div", { class: "controls" }, h("label", {}, term("price", "price of a device-hour, $"), this.price)), this.chart, this.table);
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
    this.say("The same training on more and on fewer devices: how long a step takes, and what tokens cost. Click a size to take it.");
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
    const costs = points.map((plan) => costOf(plan, price));
    const dearest = Math.max(...costs) * 1.15;
    const x = (value: number): number => kLeft + (Math.log(value / x0) / Math.log(x1 / x0)) * (kWide - kLeft - 24);
    const y = (value: number): number => kTall - (Math.log(value / y0) / Math.log(y1 / y0)) * (kTall - 12);
    const front = points.filter((plan) => !beaten(plan));
    const now = (this.context?.answer as Plan | undefined)?.cluster.devices;
    const bottom = kTall + kGap + kCost;
    put(this.chart,
      s("line", { x1: kLeft, x2: kWide - 10, y1: kTall, y2: kTall, stroke: "var(--line)" }), s("line", { x1: kLeft, x2: kLeft, y1: 10, y2: kTall, stroke: "var(--line)" }),
      s("line", { x1: kLeft, x2: kWide - 10, y1: bottom, y2: bottom, stroke: "var(--line)" }),
      s("text", { x: 0, y: 10, class: "axis" }, "per step"), s("text", { x: 0, y: kTall + kGap - 4, class: "axis" }, "$ per million tokens"),
      s("text", { x: 0, y: bottom + 14, class: "axis" }, "devices"),
      s("polyline", { points: front.map((p) => `${x(p.cluster.devices)},${y(time(p))}`).join(" "), fill: "none", stroke: "var(--recompute)", "stroke-width": 1.5 }),
      ...points.flatMap((plan, i) => {
        const at = x(plan.cluster.devices), chosen = plan.cluster.devices === now, colour = beaten(plan) ? "var(--other)" : "var(--compute)", cost = costs[i] as number;
        const tall = (cost / dearest) * (kCost - 16);
        const told = `${integer(plan.cluster.devices)} devices: ${seconds(time(plan))} per step, $${three(cost)} for a million tokens\n${strategyText(plan.strategy)}`;
        return [
          s("circle", { cx: at, cy: y(time(plan)), r: chosen ? 8 : 6, tabindex: "0", role: "button", fill: colour, stroke: chosen ? "var(--ink)" : "none", "stroke-width": 2, style: { cursor: "pointer" },
            "aria-label": `take ${plan.cluster.devices} devices, ${seconds(time(plan))}`, data: { tip: told }, on: { click: () => this.take(plan), keydown: (event: KeyboardEvent) => {
              if (event.key !== "Enter" && event.key !== " ") return;
              event.preventDefault();
              this.take(plan);
            } } }),
          s("text", { x: at + 10, y: y(time(plan)) - 7 }, seconds(time(plan))),
          s("rect", { x: at - 9, y: bottom - tall, width: 18, height: tall, fill: colour, data: { tip: told } }),
          s("text", { x: at, y: bottom - tall - 4, class: "c told" }, three(cost)),
          s("text", { x: at, y: bottom + 14, class: "c axis" }, integer(plan.cluster.devices))];
      }));
    put(this.table, h("table", { class: "wide-table" }, h("thead", {}, h("tr", {}, h("th", { class: "n" }, "devices"), h("th", { class: "n" }, "per step"), h("th", { class: "n" }, "$ per million tokens"), h("th", {}, "plan"), h("th", {}, ""))),
      h("tbody", {}, ...points.map((plan) => h("tr", {}, h("td", { class: "n" }, plan.cluster.devices === now ? h("strong", {}, integer(plan.cluster.devices))
          : h("button", { type: "button", class: "small", "aria-label": `take ${plan.cluster.devices} devices`, on: { click: () => this.take(plan) } }, integer(plan.cluster.devices))), h("td", { class: "n" }, seconds(time(plan))),
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

type Row = [name: string, change: string, gain: number | null, instead: string];  // of a number, what there is to say

// "450GB/s → 495GB/s"; of a table by precision, the row that is used.
function fromTo(from: Json, to: Json, precision: string): string {
  const one = (value: Json): string => {
    if (value && typeof value === "object" && !Array.isArray(value)) return one(value[precision] ?? value.bf16 ?? null);
    if (typeof value === "number") return three(value);
    return typeof value === "string" ? value.replace(/\d+(\.\d+)?/, (number) => String(Number(Number(number).toPrecision(4)))).replace(/(\d)([A-Za-z])/, "$1 $2") : "";
  };
  const [a, b] = [one(from), one(to)];
  return a && b ? `${a} → ${b}` : "";
}

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
    const variants: [string, string, ClusterDescription][] = [];  // what, from what to what, and the cluster with it
    if (device) {
      for (const [key, name] of [["peak", "arithmetic"], ["memory_bandwidth", "memory bandwidth"], ["memory", "memory"]] as const) {
        if (device[key] === undefined) continue;
        const more = grown(device[key] as Json, 1.1);
        variants.push([name, fromTo(device[key] as Json, more, plan.run.precision), { ...structuredClone(base), device: { ...(structuredClone(device) as Dict), [key]: more } }]);
      }
    }
    base.levels?.forEach((level, i) => {
      const made = structuredClone(base);
      (made.levels as Dict[])[i] = { ...(level as Dict), bandwidth: grown(level.bandwidth, 1.1) };
      // The innermost level is the device's own links: no more goes through it than they carry.
      if (i === 0 && device?.link_bandwidth !== undefined) {
        made.device = { ...(structuredClone(device) as Dict), link_bandwidth: grown(device.link_bandwidth as Json, 1.1) };
      }
      variants.push([`bandwidth into ${clip(String(level.name ?? `level ${i + 1}`), 24)}`, fromTo(level.bandwidth, grown(level.bandwidth, 1.1), ""), made]);
    });
    const torus = base.torus?.bandwidth;
    if (torus !== undefined) {
      variants.push(["bandwidth of the torus", fromTo(torus, grown(torus, 1.1), ""), { ...structuredClone(base), torus: { ...base.torus, bandwidth: grown(torus, 1.1) } }]);
    }
    const rows: Row[] = variants.map(([name, change]) => [name, change, null, "…"]);
    this.draw(rows);
    try {
      for (const [i, [name, change, cluster]] of variants.entries()) {
        const answer = await context.ask("plan", { ...searchArguments(context.question), cluster: cluster as unknown as Json, why: false }, { later: true, most: kPatience });
        if (!context.isCurrent()) return;
        rows[i] = isPlan(answer) ? [name, change, 1 - expected(answer).iteration_s / expected(plan).iteration_s, ""]
          : [name, change, null, answer instanceof Unsettled ? `not settled in ${kPatience} s` : "not known"];
        this.draw(rows);
      }
    } catch (error) {
      if (!(error instanceof Cancelled)) throw error;
    }
  }

  private draw(rows: Row[]): void {
    const told = ([, , gain, instead]: Row): string => instead || (Math.abs(gain ?? 0) < 5e-5 ? percent(0) : signedPercent(-(gain ?? 0)));
    const bar = ([, , gain, instead]: Row): number => instead ? 0 : Math.max(0, gain ?? 0);
    const most = Math.max(0.1, ...rows.map(bar));
    put(this.strip, h("table", { class: "wide-table" }, h("thead", {}, h("tr", {}, h("th", {}, "10 % more"), h("th", { class: "n" }, "step"), h("th", { class: "bar-cell" }, "shorter"))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, h("td", {}, row[0], h("span", { class: "more" }, row[1])),
      h("td", { class: "n" }, told(row)),
      h("td", { class: "bar-cell" }, h("span", { class: "swatch", style: { width: `${(bar(row) / most) * 100}%`, background: "var(--zero)" } })))))));
  }
}
