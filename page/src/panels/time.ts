// Where the time of a step goes.

import { h, put, s } from "../dom";
import { percent, seconds } from "../format";
import { Panel, type Context } from "../panel";
import { kPartNames, swatch } from "../parts";
import { term } from "../tips";
import { expected, isPlan, kParts, type Plan } from "../types";

export class TimePanel extends Panel {
  constructor() {
    super("time", "Where the time goes", true);
  }

  protected override applies(context: Context): boolean {
    return isPlan(context.answer);
  }

  protected show(context: Context): void {
    const plan = context.answer as Plan;
    const p = expected(plan);
    const parts = kParts.map((part) => ({ part, s: p.breakdown_s[part] })).filter(({ s: value }) => value > 0);
    const losses = parts.filter(({ part }) => part !== "compute").sort((a, b) => b.s - a.s);
    const share = (value: number): number => value / p.iteration_s;
    const compute = p.breakdown_s.compute;
    this.say(`${percent(share(compute))} of the step is computing` +
             (losses[0] ? `; the largest loss is ${kPartNames[losses[0].part]}, ${percent(share(losses[0].s))}.` : "."));
    let at = 0;
    const bar = s("svg", { class: "stackbar", viewBox: "0 0 1000 27", preserveAspectRatio: "none", role: "img",
      "aria-label": parts.map(({ part, s: value }) => `${kPartNames[part]} ${seconds(value)}`).join(", ") });
    for (const { part, s: value } of parts) {
      const width = share(value) * 1000;
      bar.append(s("rect", { x: at, y: 0, width, height: 27, fill: `var(--${part})`, class: width > 3 ? "gapped" : "",
        data: { tip: `${kPartNames[part]}: ${seconds(value)}, ${percent(share(value))}` } }));
      at += width;
    }
    const widest = Math.max(...losses.map((loss) => loss.s), 1e-12);
    put(this.body, bar, h("table", { class: "wide-table" },
      h("thead", {}, h("tr", {}, h("th", {}, "part"), h("th", { class: "n" }, "time"), h("th", { class: "n" }, "share"),
        h("th", { class: "bar-cell" }, "of the losses"))),
      h("tbody", {}, ...parts.map(({ part, s: value }) => h("tr", {},
        h("td", {}, swatch(`--${part}`), term(part, kPartNames[part])),
        h("td", { class: "n" }, seconds(value)), h("td", { class: "n" }, percent(share(value))),
        h("td", { class: "bar-cell" }, part === "compute" ? null : s("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none",
          class: "chart", height: "10", "aria-hidden": "true" },
          s("rect", { width: (value / widest) * 100, height: 10, fill: `var(--${part})` }))))),
        h("tr", {}, h("td", {}, "one step"), h("td", { class: "n" }, seconds(p.iteration_s)),
          h("td", { class: "n" }, "100.0 %"), h("td", {})))));
  }
}
