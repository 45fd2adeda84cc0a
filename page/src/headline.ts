// The answer on top: the plan, its proof, its error bar; or why there is none.

import { h, put, s, type Child } from "./dom";
import { clip, count, gibibytes, integer, percent, plural, seconds, signedPercent, three } from "./format";
import { term } from "./tips";
import { expected, failureOf, isNoPlan, isPlan, type Answer, type Execution, type NoPlan, type Plan, type Strategy } from "./types";
import type { Change } from "./question";

function figure(value: string, ...name: Child[]): HTMLElement {
  return h("div", {}, h("dt", {}, ...name), h("dd", {}, value));
}

export function strategyText(strategy: Strategy): string {
  const words = [`tp=${strategy.tp}`];
  if (strategy.sp) words.push("sp");
  for (const [key, value] of [["cp", strategy.cp], ["ep", strategy.ep]] as const) {
    if (value > 1) words.push(`${key}=${value}`);
  }
  if (strategy.ep > 1) words.push(`etp=${strategy.etp}`);
  words.push(`pp=${strategy.pp}`);
  if (strategy.virtual_stages > 1) words.push(`vpp=${strategy.virtual_stages}`);
  words.push(`dp=${strategy.dp}`, `mbs=${strategy.micro_batch}`);
  if (strategy.offload && strategy.offload !== "none") words.push(`offload=${strategy.offload}`);
  return words.join(" ");
}

export function intervalText(plan: Plan): string {
  const p = expected(plan);
  if (!p.interval_s) return "";
  return `± ${Math.max(1, Math.round(((p.interval_s[1] - p.interval_s[0]) / 2 / p.iteration_s) * 100))} %`;
}

function risk(plan: Plan): string {
  const most = Math.max(...plan.evaluation.stages.map((stage) => stage.out_of_memory));
  return most < 0.001 ? "below 0.1 %" : percent(most);
}

// Of a plan on the way: how far from the best it can be at most, by what is known when it is told; null where nothing is.
export function distance(plan: Plan): string | null {
  const search = plan.search;
  if (!search) return null;
  const execution = search.execution;
  if (search.optimal && !execution) return null;
  const least = execution ? (execution.least_s ?? 0) : search.lower_bound_s;
  if (!(least > 0)) return null;
  const ratio = Math.max(1, expected(plan).iteration_s / least);
  return ratio < 2 ? `at most ${percent(ratio - 1)} from the best` : `no plan is faster than ${seconds(least)}`;
}

function unproven(plan: Plan): HTMLElement {
  const search = plan.search;
  const told = distance(plan);
  const effort = search ? `${integer(search.opened)} opened, ${seconds(search.wall_s)} so far` : "";
  if (search?.execution) {
    const executed = search.execution.executed;
    return h("p", { class: "verdict early" }, h("strong", {}, executed > 1 ? `The best of ${integer(executed)} plans executed so far` : "Executed"),
      `${told ? `: ${told}` : ""}. Others that may be faster on the simulated network are being executed; ${effort}.`);
  }
  if (search?.optimal) {
    return h("p", { class: "verdict early" }, h("strong", {}, "By the formula no plan is faster. "),
      `Whether a simpler one is as good, or another one faster on the simulated network, is being found out; ${effort}.`);
  }
  return h("p", { class: "verdict early" }, h("strong", {}, "Not yet proven: "), `${told ?? "nothing is known of others"}, still searching; ${effort}.`);
}

function proof(plan: Plan): HTMLElement {
  const search = plan.search;
  if (!plan.evaluation.fits) {
    return h("p", { class: "verdict over" }, h("strong", {}, "Does not fit: "), plan.evaluation.misfit ?? "");
  }
  if (!search) return h("p", { class: "verdict" }, "Priced as given; it was not searched for.");
  const effort = h("span", {}, " ", term("candidates", `${integer(search.candidates)} candidates`), `, ${integer(search.opened)} opened, ${seconds(search.wall_s)}.`);
  const among = search.target_version ? `among what ${search.target_version} can run` : "of its search space";
  const execution = search.execution;
  if (execution?.formula !== undefined) return executed(execution, among, effort);
  if (!search.optimal) {
    return h("p", { class: "verdict" }, h("strong", {}, "Stopped early. "), `No plan is faster than ${seconds(search.lower_bound_s)}.`, effort);
  }
  const tie: Child[] = search.fastest && search.fastest_s !== undefined
      ? [` No plan ${among} takes less than ${seconds(search.fastest_s)}. This one is `, term("simplest", "the simplest"), ` within half a percent of that; the fastest, ` +
        `${search.fastest}${search.simpler ? `, has ${search.simpler}` : " is less simple"}.`]
      : [` No plan ${among} is faster.`];
  const run = execution ? ` Executed on the simulated network: ${seconds(execution.simulated_s)}.` : "";
  return h("p", { class: "verdict" }, h("strong", {}, term("proof", "Proven.")), ...tie, effort, run);
}

// Where the network is contended the formula is no judge: plans that it holds for as good were executed.
function executed(execution: Execution, among: string, effort: HTMLElement): HTMLElement {
  const runs = (execution.runs ?? 0) > 0 ? ` (mean of ${plural(execution.runs ?? 0, "run")} with noise)` : "";
  const least = (execution.least_s ?? 0) > 0 ? ` No plan takes less than ${seconds(execution.least_s ?? 0)} there${execution.certain ? ": none is 1 % faster" : ""}.` : "";
  return h("p", { class: "verdict" }, h("strong", {}, term("executed", "The fastest when executed")), ` on the simulated network, ${among}${runs}: ${seconds(execution.simulated_s)}. ` +
    `The formula's optimum takes ${seconds(execution.formula_simulated_s ?? 0)} there. Of ${plural(execution.executed + (execution.bounded ?? 0), "plan")} that the formula estimates about as low or lower, ` +
    `${integer(execution.executed)} were executed, the bounds of ${integer(execution.bounded ?? 0)} exceed this one.` +
    `${execution.complete || execution.certain ? "" : " There are more of them, which were not looked at."}${least}`, effort);
}

// The interval in which eight of ten measured runs lie, and the proven bound below which no plan is.
function errorBar(plan: Plan): SVGElement | null {
  const p = expected(plan);
  if (!p.interval_s || !plan.evaluation.fits) return null;
  const [low, high] = p.interval_s;
  const search = plan.search;
  const bound = search?.execution?.formula !== undefined ? search.execution.least_s : search?.optimal ? (search.fastest_s ?? search.lower_bound_s) : search?.lower_bound_s;
  const near = bound !== undefined && bound > 0 && bound > 0.5 * low;  // others would squeeze the interval
  const from = Math.min(low, near ? bound : low) * 0.985;
  const to = high * 1.015;
  const x = (value: number): number => 6 + ((value - from) / (to - from)) * 468;
  const mark = (value: number, text: string, anchor: string): Child[] => [
    s("line", { x1: x(value), x2: x(value), y1: 11, y2: 25, stroke: "var(--ink)", "stroke-width": 1.5 }),
    s("text", { x: x(value), y: 40, class: `axis ${anchor}` }, text)];
  return s("svg", { class: "errorbar", viewBox: "0 0 480 44", role: "img",
    "aria-label": `eight of ten measured runs between ${seconds(low)} and ${seconds(high)}` },
    s("line", { x1: 6, x2: 474, y1: 18, y2: 18, stroke: "var(--line)" }),
    s("rect", { x: x(low), y: 14, width: x(high) - x(low), height: 8, fill: "var(--recompute)", data: { tip: `Eight of ten measured runs lie between ${seconds(low)} and ${seconds(high)}.` } }),
    ...mark(low, seconds(low), "c"), ...mark(high, seconds(high), "c"),
    near && s("line", { x1: x(bound), x2: x(bound), y1: 8, y2: 28, stroke: "var(--good)", "stroke-width": 2,
      "stroke-dasharray": "3 2" }),
    near && s("rect", { x: x(bound) - 5, y: 4, width: 10, height: 28, fill: "transparent", data: { tip: `Proven: no plan takes less than ${seconds(bound)}.` } }),
    s("circle", { cx: x(p.iteration_s), cy: 18, r: 6, fill: "var(--compute)", data: { tip: `What this plan takes: ${seconds(p.iteration_s)} per step.` } }),
    s("text", { x: x(p.iteration_s), y: 40, class: "c" }, seconds(p.iteration_s)));
}

// What waits in the host's memory.
export function onHost(plan: Plan): string[] {
  const { offload } = plan.strategy, share = plan.run.optimizer_offload ?? 0;
  return [...(offload && offload !== "none" ? [offload] : []), ...(share > 0 ? [`${share} % of the optimizer's state`] : [])];
}

function planHeadline(plan: Plan, partial: boolean): Child[] {
  const p = expected(plan);
  const fullest = Math.max(...plan.evaluation.stages.map((stage) => stage.needed_bytes));
  const told = intervalText(plan);
  const degree = (word: string, value: number): Child =>
      value > 1 ? h("span", { class: "chip" }, term(word, word), h("strong", {}, integer(value))) : null;
  const strategy = plan.strategy;
  const copied = strategyText(strategy);
  const zero = [...new Set(plan.stages.map((stage) => stage.zero))];
  const recompute = [...new Set(plan.stages.map((stage) => stage.recompute))];
  return [
    h("p", { class: "kicker" }, partial ? "a plan so far, still searching" : plan.search ? "training plan" : "priced plan"),
    h("h1", {}, `${clip(plan.model.title)} on ${integer(plan.cluster.devices)} × ${clip(plan.cluster.device)}`),
    h("p", { class: "muted" }, `${count(plan.model.parameters)} parameters; cluster ${clip(plan.cluster.name)}; ` +
      `${integer(plan.run.global_batch)} sequences of ${integer(plan.run.seq)} tokens per step; ${plan.run.precision}, ` +
      `${plan.run.optimizer}, ${clip(plan.run.stack)}${plan.run.stack_reason ? ` (${plan.run.stack_reason})` : ""}`),
    h("dl", { class: "figures" },
      figure(seconds(p.iteration_s), partial ? "per step so far" : "per step", told ? ", " : "", told ? term("interval", told) : ""),
      figure(count(p.samples_per_s * plan.run.seq), "tokens per second"),
      figure(three(p.tokens_per_s_per_device), "tokens/s per device"),
      figure(percent(p.mfu), term("mfu", "model FLOP utilisation")),
      figure(`${gibibytes(fullest)} GiB`, `of ${gibibytes(plan.evaluation.device_memory_bytes)} GiB on the fullest device`),
      figure(risk(plan), term("risk", "risk of running out of memory"))),
    errorBar(plan),
    h("p", {}, degree("tp", strategy.tp), strategy.sp && h("span", { class: "chip" }, term("sp")), degree("cp", strategy.cp),
      degree("ep", strategy.ep), degree("pp", strategy.pp), degree("vpp", strategy.virtual_stages),
      degree("dp", strategy.dp), h("span", { class: "chip" }, term("mbs"), h("strong", {}, integer(strategy.micro_batch))),
      h("span", { class: "chip" }, term("zero", "ZeRO"), h("strong", {}, zero.length === 1 ? String(zero[0]) : "by stage")),
      h("span", { class: "chip" }, term("recompute"), h("strong", {}, recompute.length === 1 ? String(recompute[0]) : "by stage")),
      ...onHost(plan).map((what) => h("span", { class: "chip" }, term("offload", "on the host"), h("strong", {}, what))),
      h("span", { class: "chip" }, term("schedule", strategy.pp > 1 ? strategy.schedule : "no pipeline")), " ",
      h("code", { class: "strategy" }, copied)),
    partial ? unproven(plan) : proof(plan),
    plan.evaluation.unsure ? h("p", { class: "verdict over" }, h("strong", {}, "Not calibrated: "), plan.evaluation.unsure) : null,
    whyNot(plan, partial),
  ];
}

function whyNot(plan: Plan, partial: boolean): HTMLElement {
  const rows = plan.why_not;
  return h("details", { id: "why" }, h("summary", {}, "Why not otherwise, what was assumed, and the nearest published runs"),
    rows?.length === 0 ? h("p", {}, "The limits leave nothing to overrule.") : rows ? h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, "why not …"), h("th", { class: "n" }, "cost"), h("th", { class: "n" }, "per step"), h("th", {}, "best that is left"))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, h("td", {}, row.name),
        h("td", { class: "n" }, row.excess === undefined ? "–" : signedPercent(row.excess)),
        h("td", { class: "n" }, row.iteration_s === undefined ? "–" : seconds(row.iteration_s)),
        h("td", {}, row.reason, row.strategy ? h("span", { class: "more mono" }, row.strategy) : null))))))
      : h("p", { class: "waiting" }, partial ? "Alternatives are searched for when the plan is settled." : "searching for the alternatives …"),
    h("h3", {}, "Assumed"), h("ul", {}, ...plan.evaluation.assumptions.map((text) => h("li", {}, text))),
    plan.nearest_runs && plan.nearest_runs.length > 0 ? h("div", {}, h("h3", {}, "Nearest published runs"),
      h("ul", {}, ...plan.nearest_runs.map((run) => h("li", {},
        `${run.id}: ${seconds(run.measured_s)} measured, ${seconds(run.predicted_s)} by nest; this plan is ${run.apart}`)))) : null);
}

// The program's text, which is broken for a terminal, as paragraphs and a table.
function prose(text: string, whole: string): Child[] {
  const parts: Child[] = [];
  for (const block of text.trim().split("\n\n")) {
    const lines = block.split("\n");
    const rows = lines.filter((line) => /^ {2}\S.* {2}/.test(line)).map((line) => line.trim().split(/ {2,}/));
    const said = lines.filter((line) => !/^ {2}\S.* {2}/.test(line)).map((line) => line.trim()).join(" ");
    if (said) parts.push(h("p", {}, said));
    if (rows.length > 0) {
      // What the terminal had no room for is told in full.
      const cell = (words: string): string => (words.endsWith("…") && whole.startsWith(words.slice(0, -1)) ? whole : words);
      parts.push(h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((words) => h("td", {}, cell(words)))))))));
    }
  }
  return parts;
}

function noPlanHeadline(answer: NoPlan, change: Change): Child[] {
  const fit = answer.would_fit;
  return [
    h("p", { class: "kicker" }, "no plan"),
    h("h1", {}, "No plan fits"),
    h("div", { class: "message" }, ...prose(answer.text, fit?.strategy ?? "")),
    fit && h("p", {}, h("button", { type: "button", on: { click: () => change((q) => {
      q.devices = fit.devices;
      q.dead = [];
    }, "fit") } }, `Take ${integer(fit.devices)} devices`), ` ${fit.strategy}: ${seconds(fit.iteration_s)} per step`)];
}

// The plan on the way stays and only its bound has come closer: what somebody points at or reads stays where it is.
export function showCloser(place: HTMLElement, plan: Plan): void {
  place.querySelector(".verdict.early")?.replaceWith(unproven(plan));
  const bar = errorBar(plan);
  if (bar) place.querySelector(".errorbar")?.replaceWith(bar);
}

// `partial`: a plan on the way.
export function showHeadline(place: HTMLElement, answer: Answer, change: Change, partial = false): void {
  const open = place.querySelector<HTMLDetailsElement>("#why")?.open ?? false;
  if (isPlan(answer)) put(place, ...planHeadline(answer, partial));
  else if (isNoPlan(answer)) put(place, ...noPlanHeadline(answer, change));
  else {
    put(place, h("p", { class: "kicker" }, "the question cannot be answered as it stands"),
      h("p", { class: "message", role: "alert" }, failureOf(answer) ?? "the planner gave no answer"));
  }
  const why = place.querySelector<HTMLDetailsElement>("#why");
  if (why) why.open = open;
}

export function spokenPartial(plan: Plan): string {
  const told = distance(plan);
  return `A plan so far: ${seconds(expected(plan).iteration_s)} per step, ${strategyText(plan.strategy)}` +
         `${told ? `, ${told}` : ""}. Still searching.`;
}

// How sure it is that nothing is faster, in a few words.
export function standing(plan: Plan): string {
  const search = plan.search;
  if (!search) return "";
  if (search.execution?.formula !== undefined) return "fastest when executed";
  return search.optimal ? "proven" : "stopped early";
}

// One sentence for those who hear the page.
export function spokenAnswer(answer: Answer): string {
  if (isPlan(answer)) {
    const p = expected(answer);
    return [`${seconds(p.iteration_s)} per step ${intervalText(answer)}`, strategyText(answer.strategy), standing(answer)].filter(Boolean).join(", ");
  }
  if (isNoPlan(answer)) return "No plan fits.";
  return failureOf(answer) ?? "No answer.";
}
