// Names and colours of what a step and a device's memory are made of, as in the reports.

import { h } from "./dom";
import { term } from "./tips";
import type { MemoryPart, Part } from "./types";

export const kPartNames: Record<Part, string> = {
  compute: "compute", recompute: "recomputation", bubble: "pipeline bubble", tp: "tensor parallel",
  cp: "context parallel", ep: "expert parallel", p2p: "stage to stage", zero: "sharded weights",
  grad_sync: "gradient sync", optimizer: "optimizer", other: "other",
};

export const kMemoryColours: Record<MemoryPart | "margin", string> = {
  weights: "--compute", gradients: "--recompute", optimizer: "--zero", activations: "--cp", working: "--tp",
  buffers: "--other", margin: "--bubble",
};

export function colourOf(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

export function swatch(variable: string): HTMLElement {
  return h("span", { class: variable === "--card" ? "swatch blank" : "swatch", style: { background: `var(${variable})` } });
}

export function legend(entries: [string, string, string][]): HTMLElement {
  return h("ul", { class: "legend" }, ...entries.map(([colour, word, name]) => h("li", {}, swatch(colour), term(word, name))));
}

// One colour per stage, dark to light along the pipeline (src/product/html/colour.cc).
const kRamp = [[0x1f, 0x3c, 0x66], [0x2f, 0x6c, 0x97], [0x4b, 0x9b, 0xa4], [0x97, 0xc1, 0x9b], [0xea, 0xdf, 0xa6]];
export function stageColour(stage: number, stages: number): [number, number, number] {
  const place = (stages < 2 ? 0.25 : Math.min(1, Math.max(0, stage / (stages - 1)))) * (kRamp.length - 1);
  const low = Math.min(Math.floor(place), kRamp.length - 2);
  const [a, b] = [kRamp[low] as number[], kRamp[low + 1] as number[]];
  const mix = (i: number): number => Math.round((a[i] ?? 0) + ((b[i] ?? 0) - (a[i] ?? 0)) * (place - low));
  return [mix(0), mix(1), mix(2)];
}
export function stageCss(stage: number, stages: number): string {
  return `rgb(${stageColour(stage, stages).join(",")})`;
}
// The same for lines on the page itself: none as dark, or as light, as what is behind them.
export function lineCss(stage: number, stages: number): string {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  const place = stages < 2 ? 50 : (stage / (stages - 1)) * 70 + (dark ? 30 : 0);
  return stageCss(place, 101);
}
export function inkOn([r, g, b]: [number, number, number]): string {
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000" : "#fff";
}
