// The pipeline over time with the memory beneath it; a second schedule beside the first; the same for Perfetto.

import { Drawing, scaleOfType } from "../canvas";
import { searchArguments } from "../cluster_edit";
import { download, h, put } from "../dom";
import { Cancelled } from "../engine";
import { gibibytes, plural, seconds, signedPercent } from "../format";
import { Panel, type Context } from "../panel";
import { colourOf, legend, lineCss } from "../parts";
import { term } from "../tips";
import { failureOf, isPlan, type Dict, type Json, type Pipeline, type Plan } from "../types";

const kSchedules = ["1f1b", "interleaved", "gpipe", "zb-h1", "zbv", "v-half", "v-min", "dualpipev"];
const kKinds = ["forward", "backward", "gradients of weights"];
const kRight = 8;

// What a stage holds, from each moment on.
function heldBy(stage: Pipeline["stages"][0]): [number, number][] {
  return stage.live.map(([t, chunks]) => [t, stage.base_bytes + chunks * stage.unit_bytes]);
}

// One schedule: lanes above, bytes below.
class Timeline {
  readonly element = h("div", {});
  private readonly title = h("h3", {});
  private readonly lanes: Drawing;
  private readonly memory: Drawing;
  private data: Pipeline | null = null;
  private total = 1;
  private limit = 0;
  private left = 34;  // where time begins, as wide as letters are
  private scale = 1;  // of letters: on a wall they are larger

  constructor() {
    this.lanes = new Drawing("the pipeline over time", (x, y) => this.cellAt(x, y));
    this.memory = new Drawing("memory over time", (x, y) => this.heldAt(x, y));
    put(this.element, this.title, this.lanes.element, this.memory.element);
  }

  show(data: Pipeline, total: number, limit: number, name: string, beside: string): void {
    this.data = data;
    this.scale = scaleOfType();
    this.left = 34 * this.scale;
    this.total = total;
    this.limit = limit;
    const skipped = data.skipped_s > 0
        ? `; ${plural(data.micro_batches - data.played, "micro-batch")} of the same rhythm (${seconds(data.skipped_s)}) are left out` : "";
    put(this.title, term("schedule", name), `: ${seconds(data.iteration_s)}${beside}${skipped}`);
    this.lanes.label(`${name}: ${plural(data.stages.length, "stage")}, ${seconds(data.iteration_s)} for ${data.micro_batches} micro-batches`);
    this.lanes.draw(() => data.stages.length * this.row() + 18 * this.scale, (c, width) => this.drawLanes(c, width));
    const most = data.stages.map((stage) => Math.max(stage.base_bytes, ...heldBy(stage).map((step) => step[1])));
    const fullest = most.indexOf(Math.max(...most));
    this.memory.label(`memory over time: stage ${fullest} holds most, ${gibibytes(most[fullest] ?? 0)} of ${gibibytes(limit)} GiB`);
    this.memory.draw(() => 120 * this.scale, (c, width, height) => this.drawMemory(c, width, height));
  }

  redraw(): void {
    this.lanes.redraw();
    this.memory.redraw();
  }

  private row(): number {
    const stages = this.data?.stages.length ?? 1;
    return (stages <= 8 ? 24 : stages <= 16 ? 16 : Math.max(4, 260 / stages)) * this.scale;
  }

  private x(t: number, width: number): number {
    return this.left + (t / this.total) * (width - this.left - kRight);
  }

  private drawLanes(c: CanvasRenderingContext2D, width: number): void {
    const data = this.data as Pipeline;
    const row = this.row();
    const colours = [colourOf("--recompute"), colourOf("--compute"), colourOf("--grad_sync")];
    const [line, muted, on] = [colourOf("--line"), colourOf("--muted"), colourOf("--on-bwd")];
    const chunks = Math.max(1, data.virtual_stages);
    c.textBaseline = "middle";
    data.stages.forEach((stage, i) => {
      const y = i * row;
      c.fillStyle = line;
      c.fillRect(this.left, y + row - 1, width - this.left - kRight, 1);
      for (const [begin, end, kind, batch, chunk] of stage.cells) {
        const from = this.x(begin, width), to = this.x(end, width);
        const tall = kind === 0 ? row * 0.55 : row * 0.86;
        c.globalAlpha = 1 - 0.5 * (chunk / chunks);
        c.fillStyle = colours[kind] ?? line;
        c.fillRect(from, y + row - 1 - tall, Math.max(0.6, to - from - (to - from > 3 ? 0.8 : 0)), tall);
        c.globalAlpha = 1;
        if (to - from > 15 * this.scale && row > 14 * this.scale) {
          c.fillStyle = kind === 0 ? "#000" : on;
          c.textAlign = "center";
          c.fillText(String(batch), (from + to) / 2, y + row - tall / 2);
        }
      }
      if (row > 11 * this.scale || i % Math.ceil((12 * this.scale) / row) === 0) {
        c.fillStyle = muted;
        c.textAlign = "right";
        c.fillText(String(i), this.left - 8, y + row / 2);
      }
    });
    c.fillStyle = muted;
    const y = data.stages.length * row + 10 * this.scale;
    c.textAlign = "right";
    c.fillText("stage", this.left - 4, y);
    c.textAlign = "left";
    c.fillText("0 s", this.left, y);
    c.textAlign = "right";
    c.fillText(seconds(this.total), width - kRight, y);
  }

  private drawMemory(c: CanvasRenderingContext2D, width: number, height: number): void {
    const data = this.data as Pipeline;
    const most = Math.max(this.limit, ...data.stages.map((stage) => Math.max(0, ...heldBy(stage).map((step) => step[1])))) * 1.04;
    const y = (bytes: number): number => height - 16 * this.scale - (bytes / most) * (height - 24 * this.scale);
    data.stages.forEach((stage, i) => {
      c.strokeStyle = lineCss(i, data.stages.length);
      c.lineWidth = 1.8;
      c.beginPath();
      let last = stage.base_bytes;
      c.moveTo(this.x(0, width), y(last));
      for (const [t, bytes] of heldBy(stage)) {
        c.lineTo(this.x(t, width), y(last));
        c.lineTo(this.x(t, width), y(bytes));
        last = bytes;
      }
      c.lineTo(this.x(data.played_s, width), y(last));
      c.stroke();
    });
    c.strokeStyle = colourOf("--over");
    c.setLineDash([4, 3]);
    c.beginPath();
    c.moveTo(this.left, y(this.limit));
    c.lineTo(width - kRight, y(this.limit));
    c.stroke();
    c.setLineDash([]);
    c.fillStyle = colourOf("--muted");
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillText(gibibytes(this.limit), this.left - 4, y(this.limit) + 4);
    c.fillText("0", this.left - 4, y(0));
    c.textAlign = "left";
    const k = this.scale;
    c.fillText("GiB of stage", this.left, height - 5 * k);
    let at = this.left + c.measureText("GiB of stage ").width;
    const every = Math.ceil(data.stages.length / 16);
    for (let i = 0; i < data.stages.length; i += every) {
      c.fillStyle = lineCss(i, data.stages.length);
      c.fillRect(at, height - 7 * k, 14 * k, 4 * k);
      c.fillStyle = colourOf("--muted");
      c.fillText(String(i), at + 17 * k, height - 5 * k);
      at += 24 * k + c.measureText(String(i)).width;
    }
  }

  private timeAt(x: number): number {
    return ((x - this.left) / (this.lanes.element.clientWidth - this.left - kRight)) * this.total;
  }

  // What the stages hold at that moment, those that hold most.
  private heldAt(x: number, _y: number): string | null {
    const data = this.data;
    const t = this.timeAt(x);
    if (!data || t < 0 || t > data.played_s) return null;
    const held = data.stages.map((stage, i): [number, number] => [i, heldBy(stage).reduce((last, [from, bytes]) => (from <= t ? bytes : last), stage.base_bytes)]);
    const shown = held.sort((a, b) => b[1] - a[1]).slice(0, 8);
    return [`at ${seconds(t)}`, ...shown.map(([i, bytes]) => `stage ${i}: ${gibibytes(bytes)} GiB`)].join("\n");
  }

  private cellAt(x: number, y: number): string | null {
    const data = this.data;
    if (!data) return null;
    const i = Math.floor(y / this.row());
    const t = this.timeAt(x);
    const cell = data.stages[i]?.cells.find(([begin, end]) => t >= begin && t < end);
    if (!cell) return data.stages[i] && t > 0 && t < this.total ? `stage ${i} waits` : null;
    const [begin, end, kind, batch, chunk] = cell;
    return `stage ${i}: ${kKinds[kind] ?? ""} of micro-batch ${batch}${data.virtual_stages > 1 ? `, chunk ${chunk}` : ""}\n` +
           `${seconds(begin)} to ${seconds(end)}, ${seconds(end - begin)}`;
  }
}

// Steps executed on the simulated network, in Chrome's trace format, which Perfetto reads; one process after another.
async function traceOf(context: Context, plans: Plan[]): Promise<string> {
  const events: Json[] = [];
  for (const [i, plan] of plans.entries()) {
    const trace = (await context.ask("trace", { plan: plan as unknown as Json })) as { traceEvents?: Dict[] };
    const failed = failureOf(trace);
    if (failed !== null) throw new Error(failed);
    for (const event of trace.traceEvents ?? []) events.push({ ...event, pid: Number(event.pid) + 10 * i });
  }
  return JSON.stringify({ displayTimeUnit: "ms", traceEvents: events });
}

// Only on a click: Perfetto's page is opened, and once it answers the trace is handed to it, from window to window.
function openPerfetto(title: string, made: Promise<string>): void {
  const origin = "https://ui.perfetto.dev";
  const other = window.open(origin);
  if (!other) return;
  const ping = setInterval(() => other.postMessage("PING", origin), 100);
  const stop = setTimeout(() => clearInterval(ping), 60_000);
  const listen = (event: MessageEvent): void => {
    if (event.origin !== origin || event.data !== "PONG") return;
    clearInterval(ping);
    clearTimeout(stop);
    removeEventListener("message", listen);
    void made.then((trace) => {
      const buffer = new TextEncoder().encode(trace).buffer;
      other.postMessage({ perfetto: { buffer, title, fileName: "nest-trace.json" } }, origin);
    });
  };
  addEventListener("message", listen);
}

export class PipelinePanel extends Panel {
  private readonly first = new Timeline();
  private readonly second = new Timeline();
  private readonly left = h("select", {});
  private readonly right = h("select", {});
  private readonly complaint = h("p", { class: "muted", role: "status" });
  private shown: Plan[] = [];

  constructor() {
    super("pipeline", "One step over time", false, true);
    for (const [select, none] of [[this.left, "this plan's"], [this.right, "none"]] as const) {
      select.append(h("option", { value: "" }, none), ...kSchedules.map((name) => h("option", { value: name }, name)));
      select.addEventListener("change", () => void this.play());
    }
    const trace = async (): Promise<string> => {
      try {
        return await traceOf(this.context as Context, this.shown);
      } catch (error) {
        if (!(error instanceof Cancelled)) this.complaint.textContent = String((error as Error).message);
        return "";
      }
    };
    put(this.body, h("div", { class: "controls" },
      h("label", {}, term("schedule"), this.left), h("label", {}, "beside it", this.right),
      h("button", { type: "button", id: "perfetto", data: { tip: "Opens ui.perfetto.dev in a new window and hands it the trace inside your browser. This is the only thing here that needs a network." },
        on: { click: () => openPerfetto("nest", trace()) } }, "Open in Perfetto"),
      h("button", { type: "button", id: "trace", on: { click: () => void trace().then((text) => {
        if (text) download("nest-trace.json", text, "application/json");
      }) } }, "Save the trace")),
      legend([["--recompute", "", "forward, low"], ["--compute", "", "backward, high"], ["--grad_sync", "", "gradients of weights alone"], ["--card", "bubble", "blank: waiting"]]),
      this.complaint, this.first.element, this.second.element);
  }

  protected override applies(context: Context): boolean {
    return isPlan(context.answer) && context.answer.strategy.pp > 1;
  }

  override restyle(): void {
    this.first.redraw();
    this.second.redraw();
  }

  protected async show(context: Context): Promise<void> {
    const plan = context.answer as Plan;
    this.say(`${plural(plan.strategy.pp, "stage")}, ${plan.strategy.schedule}` +
             `${plan.strategy.virtual_stages > 1 ? ` with ${plan.strategy.virtual_stages} chunks each` : ""}: ` +
             "who computes which micro-batch when, and what that keeps in memory.");
    await this.play();
  }

  private async play(): Promise<void> {
    const context = this.context;
    if (!context) return;
    const plan = context.answer as Plan;
    // Another schedule is the best plan that has it, with the same degrees: chunks and the rest are found anew.
    const ask = async (schedule: string): Promise<{ plan: Plan; drawn: Pipeline } | string> => {
      let made: unknown = plan;
      if (schedule !== "" && schedule !== plan.strategy.schedule) {
        const { tp, cp, ep, pp } = plan.strategy;
        const asked = searchArguments(context.question);
        made = await context.ask("plan", { ...asked, target: "any", why: false,
          set: [`tp=${tp}`, `cp=${cp}`, `ep=${ep}`, `pp=${pp}`, `schedule=${schedule}`] });
      }
      if (!isPlan(made)) return `${schedule}: ${failureOf(made) ?? "no plan with it fits here"}`;
      const drawn = await context.ask("pipeline", { plan: made as unknown as Json });
      return failureOf(drawn) ?? { plan: made, drawn: drawn as Pipeline };
    };
    try {
      const a = await ask(this.left.value);
      const b = this.right.value ? await ask(this.right.value) : null;
      if (!context.isCurrent()) return;
      const good = [a, b].filter((one): one is { plan: Plan; drawn: Pipeline } => one !== null && typeof one !== "string");
      this.complaint.textContent = [a, b].filter((one) => typeof one === "string").join(" ");
      const total = Math.max(...good.map((one) => one.drawn.played_s), 1e-9);
      const limit = plan.evaluation.device_memory_bytes;
      this.first.element.hidden = typeof a === "string";
      this.second.element.hidden = b === null || typeof b === "string";
      const name = (drawn: Pipeline): string => drawn.virtual_stages > 1 ? `${drawn.schedule}, ${drawn.virtual_stages} chunks` : drawn.schedule;
      if (typeof a !== "string") this.first.show(a.drawn, total, limit, name(a.drawn), "");
      if (b !== null && typeof b !== "string") {
        const beside = typeof a === "string" ? "" : ` (${signedPercent(b.drawn.iteration_s / a.drawn.iteration_s - 1)})`;
        this.second.show(b.drawn, total, limit, name(b.drawn), beside);
      }
      this.shown = good.map((one) => one.plan);
    } catch (error) {
      if (!(error instanceof Cancelled)) throw error;
    }
  }
}
