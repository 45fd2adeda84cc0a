// The cluster drawn: which stage sits where, who works with whom, how busy the links are. A click on a node fails it,
// a click on a kind of link changes it, and the plan follows.

import { baseCluster, linkOf, nodesOf } from "../cluster_edit";
import { Drawing, scaleOfType } from "../canvas";
import { h, put, s } from "../dom";
import { Cancelled } from "../engine";
import { clip, integer, percent, plural, rate, seconds } from "../format";
import { Panel, type Context } from "../panel";
import { colourOf, inkOn, kPartNames, stageColour, stageCss, swatch } from "../parts";
import { gigabytesPerSecond } from "../question";
import { failureOf, isPlan, type Json, type Layout, type Plan } from "../types";
import { term } from "../tips";

const kTallest = 560;  // CSS pixels of the drawing
const kCells = [22, 18, 15, 12, 10, 8, 7, 6, 5.5, 5, 4.5, 4, 3.5, 3, 2.5, 2, 1.5, 1];
const kTraffic: Record<string, string> = Object.fromEntries(Object.entries(kPartNames).map(([part, name]) => [name, `--${part}`]));

interface Tile {
  node: number;     // as the question numbers them, failed ones included
  begin: number;    // first device, or -1 where the node has failed
  end: number;
  unit: number;     // of the tier outside
  x: number;
  y: number;
}

class ClusterMap {
  readonly drawing: Drawing;
  private layout: Layout | null = null;
  private tiles: Tile[] = [];
  private owner = new Int32Array(0);  // of every device: its run
  private cell = 10;
  private columns = 4;
  private largest = 1;
  private stages = 1;
  private boxes: { x: number; y: number; w: number; h: number; unit: number }[] = [];
  private marked = -1;
  busy = 0;   // share of a step that the links between nodes send

  constructor(private readonly clicked: (node: number, failed: boolean) => void, private readonly linkClicked: () => void) {
    this.drawing = new Drawing("the cluster", (x, y) => this.tell(x, y));
    this.drawing.element.addEventListener("click", (event) => {
      const box = this.drawing.element.getBoundingClientRect();
      const tile = this.tileAt(event.clientX - box.left, event.clientY - box.top);
      if (!tile) return;
      if (this.onLink(tile, event.clientY - box.top)) this.linkClicked();
      else this.clicked(tile.node, tile.begin < 0);
    });
  }

  show(layout: Layout, stages: number, dead: number[], label: string): void {
    this.layout = layout;
    this.stages = stages;
    this.marked = -1;
    this.owner = new Int32Array(layout.devices).fill(-1);
    layout.runs.forEach(([begin, end], i) => this.owner.fill(i, begin, Math.min(end, layout.devices)));
    this.tiles = tilesOf(layout, dead);
    this.largest = Math.max(...this.tiles.map((tile) => tile.end - tile.begin), 1);
    this.columns = this.largest <= 2 ? this.largest : Math.ceil(Math.sqrt(this.largest * 2));
    this.drawing.label(label);
    this.drawing.draw((width) => this.arrange(width), (c) => this.paint(c));
  }

  private arrange(width: number): number {
    const scale = scaleOfType();
    let height = 0;
    for (const cell of kCells) {
      this.cell = cell >= 8 ? cell * scale : cell;
      height = this.place(width);
      if (height <= kTallest * scale) break;
    }
    return height;
  }

  // Tiles flow inside the boxes of their units, boxes flow along the width.
  private place(width: number): number {
    const cell = this.cell;
    const gap = cell >= 8 ? 6 : cell >= 4 ? 3 : 1.5;
    const pad = cell >= 8 ? 8 : 4;
    const link = cell >= 3 ? 4 : 1.5;
    const tileW = this.columns * cell;
    const tileH = Math.ceil(this.largest / this.columns) * cell + link;
    const units = new Map<number, Tile[]>();
    for (const tile of this.tiles) units.set(tile.unit, [...(units.get(tile.unit) ?? []), tile]);
    this.boxes = [];
    let x = 0, y = 0, rowHeight = 0;
    for (const [unit, tiles] of units) {
      const most = Math.max(1, Math.floor((width - 2 * pad + gap) / (tileW + gap)));
      const across = Math.min(tiles.length, most);
      const w = across * (tileW + gap) - gap + 2 * pad;
      const boxH = Math.ceil(tiles.length / across) * (tileH + gap) - gap + 2 * pad;
      if (x > 0 && x + w > width) {
        x = 0;
        y += rowHeight + gap;
        rowHeight = 0;
      }
      tiles.forEach((tile, i) => {
        tile.x = x + pad + (i % across) * (tileW + gap);
        tile.y = y + pad + Math.floor(i / across) * (tileH + gap);
      });
      this.boxes.push({ x, y, w, h: boxH, unit });
      x += w + gap;
      rowHeight = Math.max(rowHeight, boxH);
    }
    return y + rowHeight + 2;
  }

  private paint(c: CanvasRenderingContext2D): void {
    const layout = this.layout as Layout;
    const [line, over, muted, back, ink] = ["--line", "--over", "--muted", "--panel", "--ink"].map(colourOf) as
        [string, string, string, string, string];
    const cell = this.cell;
    c.lineWidth = 1;
    c.strokeStyle = line;
    for (const box of this.boxes) c.strokeRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1);
    c.textAlign = "center";
    c.textBaseline = "middle";
    const spare = cell >= 6 ? 1 : cell >= 3 ? 0.5 : 0;
    const colours = Array.from({ length: this.stages }, (_, stage) => stageCss(stage, this.stages));
    const inks = Array.from({ length: this.stages }, (_, stage) => inkOn(stageColour(stage, this.stages)));
    const marked = layout.runs[this.marked];
    const readable = 15 * scaleOfType();
    const load = loadColour(this.busy);
    for (const tile of this.tiles) {
      const rows = Math.ceil(this.largest / this.columns);
      if (tile.begin < 0) {
        c.fillStyle = back;
        c.fillRect(tile.x, tile.y, this.columns * cell, rows * cell);
        c.strokeStyle = over;
        c.beginPath();
        c.moveTo(tile.x, tile.y);
        c.lineTo(tile.x + this.columns * cell, tile.y + rows * cell);
        c.moveTo(tile.x + this.columns * cell, tile.y);
        c.lineTo(tile.x, tile.y + rows * cell);
        c.stroke();
        continue;
      }
      for (let device = tile.begin; device < tile.end; ++device) {
        const at = device - tile.begin;
        const x = tile.x + (at % this.columns) * cell, y = tile.y + Math.floor(at / this.columns) * cell;
        const run = layout.runs[this.owner[device] ?? -1];
        const stage = run?.[2] ?? -1;
        c.fillStyle = stage < 0 ? back : (colours[stage] ?? back);
        c.fillRect(x, y, cell - spare, cell - spare);
        if (cell >= readable && stage >= 0) {
          c.fillStyle = inks[stage] ?? ink;
          c.fillText(String(stage), x + cell / 2, y + cell / 2);
        }
        // Who works with the device under the pointer: its pipeline, and the replicas of its stage.
        if (marked && run && (run[3] === marked[3] || run[2] === marked[2])) {
          c.strokeStyle = run[3] === marked[3] ? over : ink;
          c.strokeRect(x + 0.5, y + 0.5, cell - spare - 1, cell - spare - 1);
        }
      }
      c.fillStyle = load;
      c.fillRect(tile.x, tile.y + rows * cell + 1, this.columns * cell - spare, cell >= 3 ? 2.5 : 1);
    }
    c.fillStyle = muted;
  }

  redraw(): void {
    this.drawing.redraw();
  }

  private tileAt(x: number, y: number): Tile | undefined {
    const w = this.columns * this.cell, tall = Math.ceil(this.largest / this.columns) * this.cell + 4;
    return this.tiles.find((tile) => x >= tile.x && x < tile.x + w && y >= tile.y && y < tile.y + tall);
  }

  private onLink(tile: Tile, y: number): boolean {
    return y >= tile.y + Math.ceil(this.largest / this.columns) * this.cell;
  }

  private tell(x: number, y: number): string | null {
    const tile = this.tileAt(x, y);
    const layout = this.layout;
    if (!tile || !layout) {
      this.mark(-1);
      return null;
    }
    if (tile.begin < 0) return `node ${tile.node} has failed; click to bring it back`;
    if (this.onLink(tile, y)) return `links out of node ${tile.node}: busy ${percent(this.busy)} of a step\nclick to change them`;
    const at = Math.floor((y - tile.y) / this.cell) * this.columns + Math.floor((x - tile.x) / this.cell);
    const device = Math.min(tile.end - 1, tile.begin + at);
    const owner = this.owner[device] ?? -1;
    this.mark(owner);
    const run = layout.runs[owner];
    const what = run && run[2] >= 0 ? `stage ${run[2]} of replica ${run[3]}` : "idle";
    return `device ${device}, node ${tile.node}: ${what}\nred outlines: its pipeline; others: replicas of its stage\nclick: this node fails`;
  }

  private mark(run: number): void {
    if (run === this.marked) return;
    this.marked = run;
    // Thousands of outlines at every move of the pointer would be felt.
    if ((this.layout?.devices ?? 0) <= 4096) this.drawing.redraw();
  }
}

function tilesOf(layout: Layout, dead: number[]): Tile[] {
  const starts = layout.tiers[0]?.starts ?? [0];
  const outer = layout.tiers[1]?.starts ?? [0];
  const tiles: Tile[] = [];
  const gone = new Set(dead);
  let unit = 0, node = 0;
  const failed = (): void => {
    while (gone.has(node)) tiles.push({ node: node++, begin: -1, end: -1, unit, x: 0, y: 0 });
  };
  starts.forEach((begin, i) => {
    while (unit + 1 < outer.length && begin >= (outer[unit + 1] ?? Infinity)) ++unit;
    failed();
    tiles.push({ node: node++, begin, end: starts[i + 1] ?? layout.devices, unit, x: 0, y: 0 });
  });
  failed();
  return tiles;
}

// From quiet to full.
function loadColour(share: number): string {
  return colourOf(share > 0.5 ? "--over" : share > 0.2 ? "--tp" : share > 0.05 ? "--cp" : "--grad_sync");
}

export class ClusterPanel extends Panel {
  private readonly map: ClusterMap;
  private readonly links = h("div", {});
  private readonly editor = h("div", {});
  private readonly stageKey = h("div", { class: "legend" });
  private readonly failBar = h("div", { class: "controls" });
  private readonly below = h("span", {});
  private readonly nodeBox = h("input", { type: "number", min: 0, value: "0", "aria-label": "number of a node" });
  private readonly failButton = h("button", { type: "button", id: "fail-node" }, "Let this node fail");
  private edited = -1;

  constructor() {
    super("cluster", "On the cluster", false, true);
    this.map = new ClusterMap((node, failed) => this.fail(node, failed), () => {
      if (this.context) this.edit(1, this.context);
    });
    this.failButton.addEventListener("click", () => {
      const node = Number(this.nodeBox.value);
      this.fail(node, this.context?.question.dead.includes(node) ?? false);
    });
    put(this.failBar, h("label", {}, "number", this.nodeBox), this.failButton);
    put(this.body, this.stageKey, this.map.drawing.element,
      h("ul", { class: "legend" }, h("li", {}, this.below),
        ...([["--grad_sync", "below 5 %"], ["--cp", "5 to 20 %"], ["--tp", "20 to 50 %"], ["--over", "above 50 %"]] as const)
          .map(([colour, name]) => h("li", {}, swatch(colour), name))),
      this.failBar,
      h("h3", {}, "Links"), this.links, this.editor);
  }

  protected override applies(context: Context): boolean {
    return isPlan(context.answer);
  }

  override restyle(): void {
    this.map.redraw();
  }

  protected async show(context: Context): Promise<void> {
    const plan = context.answer as Plan;
    let layout: Layout;
    try {
      const answer = await context.ask("cluster", { plan: plan as unknown as Json });
      const failed = failureOf(answer);
      if (failed !== null) throw new Error(failed);
      layout = answer as Layout;
    } catch (error) {
      if (error instanceof Cancelled) return;
      throw error;
    }
    if (!context.isCurrent()) return;
    const node = layout.tiers[0];
    const word = node && !node.made_up ? clip(node.name, 24) : "node";
    const base = baseCluster(context.question);
    const nodes = base ? nodesOf(base, context.question.devices) : null;
    const used = layout.runs.reduce((sum, [begin, end, stage]) => sum + (stage < 0 ? 0 : end - begin), 0);
    this.say(`${plural(layout.devices, "device")}${node ? ` in ${plural(node.starts.length, clip(node.name, 24))}` : ""}; ` +
             `${plural(plan.strategy.pp, "stage")}, ${plural(plan.strategy.dp, "replica")}. ` +
             (used < layout.devices ? `${integer(layout.devices - used)} are idle. ` : "No device is idle. ") +
             (nodes ? `Click a ${word} to let it fail, a kind of link to change it.` : "Click a kind of link to change it."));
    this.below.textContent = `bar below a ${word}, how busy its links are:`;
    this.map.busy = layout.links[1]?.busy_share ?? 0;
    this.map.show(layout, plan.strategy.pp, context.question.dead,
      `${plural(layout.devices, "device")} with ${plural(plan.strategy.pp, "stage")}`);
    const shown = Math.min(plan.strategy.pp, 16);
    put(this.stageKey, h("span", {}, "stage "), ...Array.from({ length: shown }, (_, i) => {
      const stage = Math.round((i * (plan.strategy.pp - 1)) / Math.max(1, shown - 1));
      const [r, g, b] = stageColour(stage, plan.strategy.pp);
      return h("span", {}, h("span", { class: "swatch", style: { background: `rgb(${r},${g},${b})` } }), String(stage));
    }));
    this.failBar.hidden = nodes === null;
    this.failButton.textContent = `Let this ${word} fail`;
    this.nodeBox.max = String((nodes?.nodes ?? 1) - 1);
    this.showLinks(layout, context);
  }

  private showLinks(layout: Layout, context: Context): void {
    const base = baseCluster(context.question);
    const most = Math.max(...layout.links.map((link) => link.busy_s), 1e-9);
    put(this.links, h("div", { class: "scroll" }, h("table", { class: "wide-table" },
      h("thead", {}, h("tr", {}, h("th", {}, "kind of link"), h("th", { class: "n" }, "links"), h("th", { class: "n" }, term("each")), h("th", { class: "n" }, term("busy")), h("th", { class: "bar-cell" }, "with"))),
      h("tbody", {}, ...layout.links.map((link, level) => {
        const name = base && linkOf(base, level)
            ? h("button", { type: "button", class: "small link", on: { click: () => this.edit(level, context) } }, link.name) : link.name;
        let at = 0;
        return h("tr", {}, h("td", {}, name), h("td", { class: "n" }, integer(link.links)), h("td", { class: "n" }, rate(link.bytes_per_s)),
          h("td", { class: "n" }, percent(link.busy_share)),
          h("td", { class: "bar-cell" }, s("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", class: "chart", height: 12, role: "img",
            "aria-label": link.load.map(({ traffic: kind, busy_s: busy }) => `${kind} ${seconds(busy)}`).join(", ") || "nothing" },
            ...link.load.map(({ traffic: kind, busy_s: busy }) => {
              const width = (busy / most) * 100;
              const bar = s("rect", { x: at, width, height: 12, fill: `var(${kTraffic[kind] ?? "--other"})`, data: { tip: `${kind}: ${seconds(busy)} of a step` } });
              at += width;
              return bar;
            }))));
      })))),
      h("p", { class: "legend" }, ...Object.entries(kTraffic).filter(([kind]) => layout.links.some((link) => link.load.some((part) => part.traffic === kind)))
        .map(([kind, colour]) => h("span", {}, swatch(colour), kind))));
    if (this.edited >= 0) this.edit(this.edited, context);
    else put(this.editor);
  }

  private edit(at: number, context: Context): void {
    const base = baseCluster(context.question);
    const link = base ? linkOf(base, at) : null;
    if (!link) return;
    const key = link.key;
    if (this.edited === at && this.editor.contains(document.activeElement)) return;  // being dragged: it stays
    this.edited = at;
    const original = gigabytesPerSecond(link.bandwidth) ?? 1;
    const now = gigabytesPerSecond(context.question.edits[key] ?? link.bandwidth) ?? original;
    const told = h("output", {}, `${now} GB/s`);
    const slider = h("input", { type: "range", min: Math.log2(original) - 4, max: Math.log2(original) + 4, step: 0.05,
      value: Math.log2(now), "aria-label": `bandwidth of a link into ${link.name}, GB/s` });
    slider.addEventListener("input", () => {
      const value = 2 ** Number(slider.value);
      const text = Math.abs(value / original - 1) < 0.02 ? null : `${Number(value.toPrecision(3))}GB/s`;
      told.textContent = text ?? `${original} GB/s`;
      context.change((q) => {
        if (text === null) delete q.edits[key];
        else q.edits[key] = text;
      }, `edit ${key}`);
    });
    put(this.editor, h("div", { class: "popover" }, h("div", { class: "label" }, h("span", {}, term("bandwidth", "Bandwidth"),
      ` of a link into ${clip(link.name, 24)}: `, told),
      h("button", { type: "button", class: "small", on: { click: () => {
        this.edited = -1;
        put(this.editor);
      } } }, "Close")), slider));
  }

  private fail(node: number, failed: boolean): void {
    const base = this.context ? baseCluster(this.context.question) : null;
    if (!base || !nodesOf(base, this.context?.question.devices ?? null)) return;
    this.context?.change((q) => {
      q.dead = failed ? q.dead.filter((one) => one !== node) : [...q.dead, node].sort((a, b) => a - b);
    }, `dead ${node}`);
  }
}
