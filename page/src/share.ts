// A picture to share: the answer on one card, as SVG or PNG, in the colours of the page.

import { download, h, put, s } from "./dom";
import { clip, count, gibibytes, integer, percent, seconds } from "./format";
import { intervalText, standing, strategyText } from "./headline";
import { colourOf, kMemoryColours, kPartNames } from "./parts";
import type { Question } from "./state";
import { expected, isPlan, kMemoryParts, kParts, type Answer, type Plan } from "./types";

const kWide = 1200, kTall = 630, kFont = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

export function cardOf(plan: Plan): SVGSVGElement {
  const p = expected(plan);
  const ink = colourOf("--ink"), muted = colourOf("--muted"), line = colourOf("--line");
  const text = (x: number, y: number, size: number, words: string, fill = ink, weight = 400, anchor = "start"): SVGTextElement =>
      s("text", { x, y, "font-size": size, "font-family": kFont, "font-weight": weight, fill, "text-anchor": anchor }, words);
  const card = s("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${kWide} ${kTall}`, width: kWide, height: kTall },
    s("rect", { width: kWide, height: kTall, fill: colourOf("--back") }),
    text(60, 78, 20, "TRAINING PLAN BY NEST", muted, 500), text(60, 132, 46, clip(`${plan.model.title} on ${integer(plan.cluster.devices)} × ${plan.cluster.device}`, 44), ink, 700),
    text(60, 168, 20, clip(`${plan.cluster.name}; ${integer(plan.run.global_batch)} sequences of ${integer(plan.run.seq)} tokens; ${plan.run.precision}, ${plan.run.stack}`, 100), muted));
  const figures: [string, string][] = [[seconds(p.iteration_s), `per step ${intervalText(plan)}`],
    [count(p.samples_per_s * plan.run.seq), "tokens per second"], [percent(p.mfu), "model FLOP utilisation"],
    [`${gibibytes(Math.max(...plan.evaluation.stages.map((stage) => stage.needed_bytes)))} GiB`, `of ${gibibytes(plan.evaluation.device_memory_bytes)} GiB`]];
  figures.forEach(([value, name], i) => card.append(text(60 + i * 280, 236, 40, value, ink, 700), text(60 + i * 280, 266, 18, name, muted)));
  let x = 60;
  for (const part of kParts) {
    const width = (p.breakdown_s[part] / p.iteration_s) * 1080;
    if (width <= 0) continue;
    card.append(s("rect", { x, y: 306, width, height: 34, fill: colourOf(`--${part}`) }));
    x += width;
  }
  x = 60;
  const largest = kParts.filter((part) => p.breakdown_s[part] > 0).sort((a, b) => p.breakdown_s[b] - p.breakdown_s[a]).slice(0, 5);
  for (const part of largest) {
    const words = `${kPartNames[part]} ${percent(p.breakdown_s[part] / p.iteration_s)}`;
    card.append(s("rect", { x, y: 354, width: 14, height: 14, fill: colourOf(`--${part}`) }), text(x + 20, 366, 16, words));
    x += 44 + widthOf(words, 16);
  }
  const rows = Math.min(plan.stages.length, 8), tall = 128 / rows;
  card.append(text(60, 402, 16, plan.stages.length > rows ? `memory of ${rows} of ${plan.stages.length} stages` : "memory of every stage", muted));
  const most = Math.max(plan.evaluation.device_memory_bytes, ...plan.evaluation.stages.map((stage) => stage.needed_bytes)) * 1.08;
  for (let i = 0; i < rows; ++i) {
    const stage = plan.stages[Math.round((i * (plan.stages.length - 1)) / Math.max(1, rows - 1))] as Plan["stages"][0];
    let at = 60;
    for (const part of kMemoryParts) {
      const width = (stage.memory_bytes[part] / most) * 1080;
      card.append(s("rect", { x: at, y: 416 + i * tall, width, height: tall * 0.78, fill: colourOf(kMemoryColours[part]) }));
      at += width;
    }
  }
  const limit = 60 + (plan.evaluation.device_memory_bytes / most) * 1080;
  card.append(s("line", { x1: limit, x2: limit, y1: 410, y2: 550, stroke: colourOf("--over"), "stroke-width": 3 }),
    text(limit, 402, 16, `${gibibytes(plan.evaluation.device_memory_bytes)} GiB`, colourOf("--over"), 600, "middle"),
    s("line", { x1: 60, x2: 1140, y1: 566, y2: 566, stroke: line }),
    text(60, 600, 19, clip(strategyText(plan.strategy), 70), ink, 600),
    text(1140, 600, 19, plan.search ? `${standing(plan)}: ${integer(plan.search.candidates)} candidates, ${seconds(plan.search.wall_s)}` : "", colourOf("--good"), 600, "end"));
  return card;
}

function widthOf(words: string, size: number): number {
  const context = document.createElement("canvas").getContext("2d");
  if (!context) return words.length * size * 0.55;
  context.font = `${size}px ${kFont}`;
  return context.measureText(words).width;
}

async function png(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = h("canvas", { width: kWide * 2, height: kTall * 2 });
  const context = canvas.getContext("2d");
  context?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"));
}

export function shareMenu(shown: () => { question: Question; answer: Answer } | null): HTMLElement {
  const preview = h("div", {});
  let svg = "";
  const dialog = h("dialog", { "aria-label": "A picture of the answer" }, preview, h("p", {},
    h("button", { type: "button", id: "save-png", on: { click: () => void png(svg).then((blob) => download("nest-plan.png", blob, "image/png")) } }, "Save PNG"), " ",
    h("button", { type: "button", id: "save-svg", on: { click: () => download("nest-plan.svg", svg, "image/svg+xml") } }, "Save SVG"), " ",
    h("button", { type: "button", on: { click: () => dialog.close() } }, "Close")));
  const button = h("button", { type: "button", id: "picture" }, "Picture");
  button.addEventListener("click", () => {
    const answer = shown()?.answer;
    if (!isPlan(answer)) return;
    const card = cardOf(answer);
    svg = new XMLSerializer().serializeToString(card);
    card.setAttribute("class", "card");
    put(preview, card);
    dialog.showModal();
  });
  return h("span", {}, button, dialog);
}
