// The left side: the question. Every control changes the question at once; there is nothing to press.

import { clusters, models, stacks } from "nest:presets";
import { baseCluster, deviceOf } from "./cluster_edit";
import { download, h, put } from "./dom";
import { capital, clip, count, integer, manyOf } from "./format";
import { kDimensions } from "./limits";
import type { kMore, Question } from "./state";
import { term } from "./tips";
import type { ClusterDescription, Plan } from "./types";

export type Change = (edit: (question: Question) => void, key: string) => void;

interface Control {
  element: HTMLElement;
  show(question: Question): void;
  told?(plan: Plan): void;  // what an empty control came to
}

let controls = 0;
const nextId = (): string => `c${++controls}`;

function field(label: HTMLElement, control: HTMLElement, ...more: HTMLElement[]): HTMLElement {
  const id = nextId();
  control.id = id;
  return h("div", { class: "field" }, h("label", { for: id }, label, ...more), control);
}

function choice(word: string, label: HTMLElement, options: [string, string][], read: (q: Question) => string,
                write: (q: Question, value: string) => void, change: Change): Control {
  const select = h("select", {}, ...options.map(([value, text]) => h("option", { value }, text)));
  select.addEventListener("change", () => change((q) => write(q, select.value), word));
  return {
    element: field(label, select),
    show(q) {
      const value = read(q);
      if (![...select.options].some((option) => option.value === value)) {
        select.append(h("option", { value }, clip(value, 40)));
      }
      select.value = value;
    },
  };
}

// A number with a slider over sensible values: powers of two and halfway between.
const kSteps = Array.from({ length: 45 }, (_, i) => (i % 2 === 0 ? 2 ** (i / 2) : 3 * 2 ** ((i - 3) / 2)))
                   .filter((v) => v >= 1 && Number.isInteger(v));

function numberControl(word: string, name: string, least: number, most: number, read: (q: Question) => number | null,
                       write: (q: Question, value: number | null) => void, change: Change, usual: (q: Question) => number,
                       came: (plan: Plan) => number): Control {
  const steps = kSteps.filter((v) => v >= least && v <= most);
  const slider = h("input", { type: "range", min: 0, max: steps.length - 1, step: 1, "aria-label": `${name}, slider` });
  const box = h("input", { type: "number", min: 1, step: 1, inputmode: "numeric", placeholder: "default" });
  const nearest = (value: number): number =>
      steps.reduce((best, step, i) => Math.abs(Math.log(step / value)) < Math.abs(Math.log((steps[best] ?? 1) / value)) ? i : best, 0);
  slider.addEventListener("input", () => {
    const value = steps[Number(slider.value)] ?? least;
    box.value = String(value);
    change((q) => write(q, value), word);
  });
  box.addEventListener("input", () => {
    const value = box.value === "" ? null : Number(box.value);
    const sound = value === null || (Number.isInteger(value) && value > 0);
    box.setAttribute("aria-invalid", String(!sound));
    if (sound) change((q) => write(q, value), word);
  });
  const id = nextId();
  box.id = id;
  return {
    element: h("div", { class: "field" }, h("label", { for: id }, term(word, name)),
               h("div", { class: "pair" }, slider, box)),
    show(q) {
      const value = read(q);
      if (document.activeElement !== box) box.value = value === null ? "" : String(value);
      if (document.activeElement !== slider) slider.value = String(nearest(value ?? usual(q)));
      slider.setAttribute("aria-valuetext", value === null ? "default" : integer(value));
    },
    told(plan) {
      const value = came(plan);
      box.placeholder = `= ${value}`;
      if (box.value === "" && document.activeElement !== slider) slider.value = String(nearest(value));
    },
  };
}

// A text, with a list of examples where there are some.
function textControl(word: string, label: HTMLElement, placeholder: string, words: string[], read: (q: Question) => string,
                     write: (q: Question, value: string) => void, change: Change): Control {
  const box = h("input", { type: "text", placeholder, spellcheck: "false", autocomplete: "off" });
  box.addEventListener("input", () => change((q) => write(q, box.value.trim()), word));
  const element = field(label, box);
  if (words.length > 0) {
    const list = h("datalist", { id: nextId() }, ...words.map((value) => h("option", { value })));
    box.setAttribute("list", list.id);
    element.append(list);
  }
  return {
    element,
    show(q) {
      if (document.activeElement !== box) box.value = read(q);
    },
  };
}

function setOrDrop(record: Record<string, string>, key: string, value: string): void {
  if (value === "") delete record[key];
  else record[key] = value;
}

// Bandwidths as people write them, and as a slider's number of GB/s.
const kBandwidth = /^\s*([0-9.]+(?:[eE][+-]?\d+)?)\s*([kKMGTP]?)(B\/s|bps|b\/s)\s*$/;
const kPrefix: Record<string, number> = { "": 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15 };
export function gigabytesPerSecond(text: string | number): number | null {
  if (typeof text === "number") return text / 1e9;
  const match = kBandwidth.exec(text);
  if (!match) return null;
  return (Number(match[1]) * (kPrefix[match[2] ?? ""] ?? 1)) / (match[3] === "B/s" ? 1e9 : 8e9);
}

// The levels of the network, from the inside out: what can be changed about each.
class LevelEditor {
  readonly element = h("div", {});
  private shownFor = "";

  constructor(private readonly change: Change) {}

  show(q: Question): void {
    const base = baseCluster(q);
    const key = JSON.stringify([q.clusterDocument?.text ?? q.cluster]);
    if (key !== this.shownFor) {
      this.shownFor = key;
      this.build(q);
    }
    for (const input of this.element.querySelectorAll("input")) {
      if (document.activeElement === input) continue;
      const edit = input.dataset.edit ?? "";
      const original = originalOf(base, edit);
      const value = q.edits[edit] ?? original;
      if (input.type === "checkbox") input.checked = value === "true";
      else if (input.type === "range") input.value = String(Math.log2(numberOf(edit, value) ?? 1));
      else input.value = value;
    }
  }

  private build(q: Question): void {
    const base = baseCluster(q);
    const parts: HTMLElement[] = [];
    const edit = (key: string, value: string): void => {
      const original = originalOf(base, key);
      this.change((now) => setOrDrop(now.edits, key, value === original ? "" : value), `edit ${key}`);
    };
    const text = (key: string, word: string, name: string, suffix: string): HTMLElement => {
      const box = h("input", { type: "text", spellcheck: "false", autocomplete: "off", data: { edit: key } });
      const slider = h("input", { type: "range", min: "0", max: "15", step: "0.05", "aria-label": `${name}, slider`,
        data: { edit: key } });
      const original = numberOf(key, originalOf(base, key)) ?? 1;
      slider.min = String(Math.log2(original) - 3);
      slider.max = String(Math.log2(original) + 3);
      box.addEventListener("input", () => {
        const sound = numberOf(key, box.value) !== null;
        box.setAttribute("aria-invalid", String(!sound));
        if (sound) edit(key, box.value.trim());
      });
      slider.addEventListener("input", () => {
        const value = 2 ** Number(slider.value);
        const rounded = Math.abs(value / original - 1) < 0.02 ? original : Number(value.toPrecision(3));
        box.value = `${rounded}${suffix}`;
        edit(key, box.value);
      });
      const id = nextId();
      box.id = id;
      return h("div", { class: "field" }, h("label", { for: id }, term(word, name)),
               h("div", { class: "pair" }, slider, box));
    };
    const small = (key: string, word: string, name: string): HTMLElement => {
      const box = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", data: { edit: key } });
      box.addEventListener("input", () => {
        const sound = numberOf(key, box.value) !== null;
        box.setAttribute("aria-invalid", String(!sound));
        if (sound) edit(key, box.value.trim());
      });
      return field(term(word, name), box);
    };
    if (base && deviceOf(base)) parts.push(text("hbm", "hbm", "Memory of a device", "GiB"));
    base?.levels?.forEach((level, i) => {
      const rails = h("input", { type: "checkbox", data: { edit: `${i}.rails` } });
      rails.addEventListener("change", () => edit(`${i}.rails`, String(rails.checked)));
      parts.push(h("div", { class: "level" }, h("h4", {}, `Level ${i + 1}: ${clip(level.name ?? "", 30)}`),
        text(`${i}.bandwidth`, "bandwidth", "Bandwidth", "GB/s"),
        h("div", { class: "two" }, level.counts ? null : small(`${i}.group`, "group", `${i === 0 ? "Devices" : capital(clip(manyOf(base.levels?.[i - 1]?.name ?? "unit"), 14))} in it`),
          small(`${i}.oversubscription`, "oversubscription", "Oversubscribed"),
          small(`${i}.latency`, "latency", "Latency"),
          i > 0 ? h("label", { class: "label" }, h("span", {}, rails, " ", term("rails", "port per device"))) : null)));
    });
    if (base?.torus?.bandwidth !== undefined) parts.push(text("torus.bandwidth", "bandwidth", "Bandwidth of the torus", "GB/s"));
    if (base && !base.levels) {
      parts.push(h("p", { class: "muted" }, "This network is no tree of levels. For more, save it, edit it and drop it above. ",
        h("button", { type: "button", class: "small", on: { click: () => download("cluster.json", JSON.stringify(base, null, 1), "application/json") } }, "Save cluster.json")));
    }
    put(this.element, ...parts);
  }
}

function numberOf(key: string, value: string): number | null {
  if (key === "hbm") {
    const match = /^\s*([0-9.]+)\s*(GiB|GB)\s*$/.exec(value);
    return match ? Number(match[1]) * (match[2] === "GB" ? 1e9 / 2 ** 30 : 1) : null;
  }
  if (key.endsWith("bandwidth")) return gigabytesPerSecond(value);
  if (key.endsWith("latency")) return Number(/^\s*([0-9.]+)\s*(ns|us|µs|ms|s)\s*$/.exec(value)?.[1]) || null;
  return Number(value) > 0 ? Number(value) : null;
}

function written(bandwidth: unknown): string {
  return typeof bandwidth === "number" ? `${bandwidth / 1e9}GB/s` : String(bandwidth ?? "");
}

// What stands in the cluster before any change.
function originalOf(base: ClusterDescription | null, key: string): string {
  if (key === "hbm") return String((base && deviceOf(base)?.memory) ?? "");
  if (key === "torus.bandwidth") return written(base?.torus?.bandwidth);
  const level = base?.levels?.[Number(key[0])];
  const name = key.slice(2);
  if (name === "rails") return String(level?.rails ?? false);
  if (name === "oversubscription") return String(level?.oversubscription ?? 1);
  if (name === "latency" && typeof level?.latency === "number") return `${level.latency * 1e6}us`;
  if (name === "bandwidth") return written(level?.bandwidth);
  return String(level?.[name] ?? "");
}

type Further = [key: (typeof kMore)[number], name: string, placeholder: string, words: string[], choice?: [string, string][]];
const kFurther: Further[] = [
  ["offload", "State on the host", "", [], [["", "if needed"], ["any", "if faster"], ["never", "never"]]],
  ["optimizer_offload", "Optimizer there, %", "0", ["25", "50", "100"]],
  ["oom_risk", "Risk of memory", "the stack's", ["0.1%", "1%", "5%"]],
  ["max_devices", "At most, devices", "all", []],
  ["routing", "Routing", "the stack's", ["forced", "cv=0.18", "overload=1.2"]],
  ["freeze", "Not trained", "nothing", ["vision", "embedding", "blocks.0-15"]],
  ["lora", "Adapters (LoRA)", "none", ["rank=16,targets=q,v", "rank=16,targets=all,base=nf4"]],
];

export class QuestionForm {
  readonly element: HTMLElement;
  private readonly controls: Control[] = [];
  private readonly levels: LevelEditor;
  private readonly dead = h("div", {});

  constructor(private readonly change: Change, dropZone: (kind: "model" | "cluster") => HTMLElement) {
    const add = <T extends Control>(control: T): HTMLElement => {
      this.controls.push(control);
      return control.element;
    };
    const model = this.presetSelect("model", "Model", modelGroups(), "modelDocument");
    const cluster = this.presetSelect("cluster", "Cluster", [["", Object.keys(clusters).sort().map((name) => [name, name])]],
                                      "clusterDocument");
    this.levels = new LevelEditor(change);
    const word = (key: "precision" | "stack" | "optimizer" | "target" | "objective", name: string,
                  values: [string, string][]): HTMLElement =>
        add(choice(key, term(key, name), values, (q) => q[key], (q, v) => (q[key] = v), change));
    const plain = (first: string, words: string[]): [string, string][] => [["", first], ...words.map((w): [string, string] => [w, w])];
    this.element = h("form", { autocomplete: "off", on: { submit: (event: Event) => event.preventDefault() } },
      h("fieldset", {}, h("legend", {}, "Model"), add(model), dropZone("model")),
      h("fieldset", {}, h("legend", {}, "Cluster"), add(cluster), dropZone("cluster"),
        add(numberControl("devices", "Devices", 1, 131072, (q) => q.devices, (q, v) => {
          q.devices = v;
          q.dead = [];
        }, change, () => 1, (plan) => plan.cluster.devices)), this.dead,
        h("details", {}, h("summary", {}, "Network and memory"), this.levels.element)),
      h("fieldset", {}, h("legend", {}, "Training"),
        add(numberControl("batch", "Batch, sequences", 1, 65536, (q) => q.batch, (q, v) => (q.batch = v), change,
          () => 1, (plan) => plan.run.global_batch)),
        add(numberControl("seq", "Sequence, tokens", 128, 1 << 20, (q) => q.seq, (q, v) => (q.seq = v), change,
          (q) => models.find((m) => m.name === q.model)?.sequence || 4096, (plan) => plan.run.seq)),
        h("div", { class: "two" },
          word("precision", "Precision", plain("default", ["bf16", "fp16", "fp8", "fp4", "fp32"])),
          word("optimizer", "Optimizer", plain("default", ["adam", "sgd", "muon", "adam8bit"]))),
        word("stack", "Software stack", [["", "chosen by nest"], ...stacks.map((s): [string, string] => [s.name, s.name])]),
        h("div", { class: "two" },
          word("target", "Framework", plain("the stack's", ["any", "megatron", "nemo", "deepspeed", "torchtitan", "torchtitan-main", "fsdp"])),
          word("objective", "Minimise", plain("time", ["device-hours"])))),
      h("details", { id: "limits" }, h("summary", {}, "Limits on every dimension"),
        h("p", { class: "muted" }, "Empty: all are searched. One value, a range 1..8, or a list 1,2,4."),
        ...kDimensions.map(([title, dimensions]) => h("div", {}, h("h4", {}, title), h("div", { class: "two" }, ...dimensions.map(({ key, name, about, words, choice: options }) => {
          const label = h("span", { class: "term", tabindex: "0", data: { tip: `${key}: ${about}` } }, name, " ", h("code", {}, key));
          const read = (q: Question): string => q.limits[key] ?? "";
          const write = (q: Question, v: string): void => setOrDrop(q.limits, key, v);
          return add(options ? choice(key, label, options, read, write, change) : textControl(key, label, "any", words ?? [], read, write, change));
        }))))),
      h("details", { id: "more" }, h("summary", {}, "More"), h("div", { class: "two" }, ...kFurther.map(([key, name, placeholder, words, options]) => {
        const read = (q: Question): string => q.more[key] ?? "";
        const write = (q: Question, v: string): void => setOrDrop(q.more, key, v);
        return add(options ? choice(key, term(key, name), options, read, write, change) : textControl(key, term(key, name), placeholder, words, read, write, change));
      }))));
  }

  told(plan: Plan): void {
    for (const control of this.controls) control.told?.(plan);
  }

  show(q: Question): void {
    for (const control of this.controls) control.show(q);
    this.levels.show(q);
    put(this.dead, q.dead.length > 0 && h("div", {},
      h("span", { class: "muted" }, "Failed nodes: "),
      ...q.dead.map((node) => h("span", { class: "chip" }, `node ${node}`,
        h("button", { type: "button", "aria-label": `bring node ${node} back`,
          on: { click: () => this.change((now) => (now.dead = now.dead.filter((n) => n !== node)), "dead") } }, "×")))));
  }

  private presetSelect(key: "model" | "cluster", name: string, groups: [string, [string, string][]][],
                       documentKey: "modelDocument" | "clusterDocument"): Control {
    const select = h("select", { "aria-label": name });
    for (const [title, options] of groups) {
      const made = options.map(([value, text]) => h("option", { value }, text));
      if (title === "") select.append(...made);
      else select.append(h("optgroup", { label: title }, ...made));
    }
    const own = h("option", { value: "\u0000own" }, "");
    select.addEventListener("change", () => this.change((q) => {
      if (select.value === own.value) return;
      q[key] = select.value;
      q[documentKey] = null;
      if (key === "cluster") {
        q.edits = {};
        q.dead = [];
      }
    }, key));
    return {
      element: h("div", { class: "field" }, select),
      show: (q) => {
        const document = q[documentKey];
        if (document) {
          own.textContent = `yours: ${clip(document.name, 40)}`;
          if (!own.isConnected) select.prepend(own);
          select.value = own.value;
        } else {
          own.remove();
          if (![...select.options].some((option) => option.value === q[key])) {
            select.append(h("option", { value: q[key] }, clip(q[key], 40)));
          }
          select.value = q[key];
        }
      },
    };
  }
}

function modelGroups(): [string, [string, string][]][] {
  const named = (wanted: boolean): [string, string][] => models.filter((m) => m.experts === wanted)
      .map((m): [string, string] => [m.name, `${m.name}  (${count(m.parameters)})`]);
  return [["dense", named(false)], ["with experts", named(true)]];
}
