// Every word of the trade that the page uses, explained where the pointer or the keyboard stops.

import { h } from "./dom";

export const kWords: Record<string, string> = {
  tp: "Tensor parallel: every layer's matrices are divided over so many devices, which exchange their parts twice per layer and pass. Wants the fastest links.",
  sp: "Sequence parallel: with tensor parallelism, norms and dropout are divided along the sequence, which saves memory.",
  cp: "Context parallel: each sequence is cut into pieces held by different devices; attention passes keys and values around.",
  ep: "Expert parallel: the experts of a mixture are spread over devices; tokens travel to the experts they chose.",
  etp: "Tensor parallelism inside one expert.",
  pp: "Pipeline parallel: the layers are cut into stages on different devices; micro-batches flow through them.",
  vpp: "Chunks per stage: each stage holds several separate runs of layers, so that the pipeline fills sooner.",
  dp: "Data parallel: so many replicas read different sequences and add up their gradients after each step.",
  mbs: "Micro-batch: sequences that pass through the model together. Larger ones use the device better and need more memory.",
  zero: "ZeRO: what the replicas divide among them instead of each holding it. 1: the optimizer's state, 2: gradients too, 3: weights too.",
  recompute: "Recomputation: parts of the forward pass are computed again in the backward pass instead of being kept in memory.",
  schedule: "In which order a pipeline's stages work on micro-batches: 1f1b, interleaved, gpipe, zb-h1, zbv, v-half, v-min, dualpipev.",
  mfu: "Model FLOP utilisation: the share of the device's 16-bit peak that goes into the model's own products.",
  bubble: "Pipeline bubble: the time in which stages wait because the pipeline fills or drains.",
  compute: "Time in which the stage that sets the pace computes.",
  p2p: "Stage to stage: activations and their gradients travel between neighbouring stages.",
  grad_sync: "Gradient sync: replicas add up their gradients; what the backward pass does not hide.",
  optimizer: "The optimizer's update of the weights.",
  other: "Host time and the rest of a step.",
  hbm: "Memory of one device that a program can allocate. Drag the line, or use the arrow keys, and the plan follows.",
  weights: "The weights that this device holds.",
  gradients: "The gradients of those weights.",
  "optimizer state": "Moments and master weights of the optimizer.",
  activations: "What the forward pass keeps for the backward pass, of all micro-batches in flight.",
  working: "What a layer needs only while it runs.",
  buffers: "Communication buffers and what the allocator wastes.",
  margin: "The stack's safety margin and the driver's own context.",
  batch: "Sequences per optimizer step, over all replicas. Empty: about four million tokens.",
  seq: "Tokens per sequence. Empty: what the model was trained with.",
  devices: "How many accelerators are used.",
  precision: "Number format of matrix products. Empty: bf16.",
  stack: "The software that runs the training: kernels, overlap, buffers. It moves the answer most. Empty: chosen by model, device and precision.",
  target: "Only plans that this framework can run. Empty: the stack's own framework.",
  objective: "What is made least: the time of a step, or device-hours (then fewer devices may win).",
  limits: "Admit only some values: 8, or 1..16, or 0,1. Empty: all are searched.",
  proof: "nest searches the whole space of plans with bounds: what it does not open cannot be faster. 'Proven' means that the search ended.",
  executed: "Where transfers of different kinds share links the formula is no judge. Such plans are executed message by message on a simulated network; what is faster there wins.",
  simplest: "Fewer things to set and to go wrong: the framework's usual order of ranks, as many layers in every stage, all stages treated alike, the batch divides, fewer chunks.",
  candidates: "Candidates: all combinations of degrees that are admitted. Opened: those whose bound was low enough to be looked at closely. The others cannot be faster.",
  interval: "Eight of ten measured runs lie within this interval.",
  group: "How many units of the level inside hang on one switch of this level; on the innermost level, devices of one node.",
  bandwidth: "Of one link into this level, per direction: 450GB/s, 400Gbps.",
  latency: "Time that a message needs to climb to this level, beside its bytes: 3us, 800ns.",
  oversubscription: "How many times more the links below can send than those above carry; divides the bandwidth.",
  rails: "Every device has a network port of its own into this level.",
  risk: "Probability that the fullest device runs out of memory, from how far measured peaks lie from predictions.",
  each: "What one such link carries in each direction, after what protocols and switches take from its bandwidth.",
  busy: "Share of a step in which these links send, on average over all of them.",
  price: "What one device costs for an hour, in dollars or any other money: costs are told in the same.",
  pareto: "Points that no other point beats in both directions.",
  routing: "How evenly tokens choose experts: forced (as benchmarks do), cv=0.18, or overload=1.2.",
  freeze: "Weights that are not trained: vision, embedding, blocks.0-15.",
  lora: "Low-rank adapters beside frozen weights: rank=16,targets=q,v.",
  oom_risk: "Probability of running out of memory that a plan may have: 1%.",
  offload: "Whether state may wait in the host's memory: needed, any or never.",
  optimizer_offload: "Percent of the optimizer's state that waits on the host.",
  max_devices: "Use at most so many devices.",
};

export function term(word: string, shown: string = word): HTMLElement {
  const text = kWords[word];
  return text === undefined ? h("span", {}, shown) : h("span", { class: "term", tabindex: "0", data: { tip: text } }, shown);
}

// One box for all: whoever carries data-tip is explained on hover and on focus.
export function startTips(): void {
  const box = h("div", { id: "tip", role: "tooltip", hidden: true });
  document.body.append(box);
  let owner: Element | null = null;
  const hide = (): void => {
    owner?.removeAttribute("aria-describedby");
    owner = null;
    box.hidden = true;
  };
  const show = (target: Element): void => {
    if (owner === target) return;
    hide();
    owner = target;
    box.textContent = target.getAttribute("data-tip") ?? "";
    box.hidden = false;
    target.setAttribute("aria-describedby", "tip");
    const place = target.getBoundingClientRect();
    const size = box.getBoundingClientRect();
    const left = Math.min(Math.max(8, place.left), innerWidth - size.width - 8);
    const below = place.bottom + 6;
    box.style.left = `${Math.max(8, left)}px`;
    box.style.top = `${below + size.height > innerHeight ? Math.max(8, place.top - size.height - 6) : below}px`;
  };
  const find = (event: Event): Element | null =>
      event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  document.addEventListener("pointerover", (event) => {
    const target = find(event);
    if (target) show(target);
    else hide();
  });
  document.addEventListener("focusin", (event) => {
    const target = find(event);
    if (target) show(target);
    else hide();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  document.addEventListener("scroll", hide, { capture: true, passive: true });
}
