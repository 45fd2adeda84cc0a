// The question: all that a link carries. A link is the fragment of the address, readable and with a version:
//   #v=1&model=llama3-70b&cluster=dgx-h100&devices=128&batch=128&l1.bandwidth=25GB/s&set.tp=1..8&dead=3
// Fragments are never sent to a server.

import { kLimits } from "./limits";

export const kVersion = 1;
export const kLongestDocument = 24_000;  // characters of a model or cluster that a link still carries

export interface Document {
  name: string;
  text: string;
}

export interface Question {
  model: string;             // a preset; not used where modelDocument is given
  modelDocument: Document | null;
  cluster: string;
  clusterDocument: Document | null;
  edits: Record<string, string>;  // of the cluster: "1.bandwidth" -> "25GB/s", "hbm" -> "96GiB"
  dead: number[];            // nodes that have failed
  devices: number | null;
  batch: number | null;
  seq: number | null;
  precision: string;
  stack: string;
  optimizer: string;
  target: string;
  objective: string;
  limits: Record<string, string>;  // "tp" -> "1..8"
  more: Record<string, string>;    // routing, freeze, lora, oom_risk, offload, optimizer_offload, max_devices
  mine: string;              // a strategy or a launch line to put beside the best
  x: string;                 // the axes of the map
  y: string;
  price: number;             // of a device-hour
}

export const kMore = ["optimizer_offload", "offload", "routing", "freeze", "lora", "oom_risk", "max_devices"] as const;
const kEdits = /^(hbm|torus\.bandwidth|[0-7]\.(group|bandwidth|latency|oversubscription|rails))$/;

export function firstQuestion(): Question {
  return {
    model: "llama3-70b", modelDocument: null, cluster: "dgx-h100", clusterDocument: null, edits: {}, dead: [],
    devices: 128, batch: 128, seq: null, precision: "", stack: "", optimizer: "", target: "", objective: "", limits: {},
    more: {}, mine: "", x: "tp", y: "pp", price: 2.5,
  };
}

const kWords = ["precision", "stack", "optimizer", "target", "objective", "mine"] as const;
const kNumbers = ["devices", "batch", "seq"] as const;

export function toFragment(q: Question): string {
  const words: string[] = [`v=${kVersion}`];
  const add = (key: string, value: string | number | null): void => {
    if (value === null || value === "") return;
    words.push(`${key}=${escape(String(value))}`);
  };
  for (const kind of ["model", "cluster"] as const) {
    const document = kind === "model" ? q.modelDocument : q.clusterDocument;
    add(kind, document ? document.name : q[kind]);
    if (document && document.text.length <= kLongestDocument) add(`${kind}.text`, document.text);
  }
  for (const key of kNumbers) add(key, q[key]);
  for (const key of kWords) add(key, q[key]);
  for (const [key, value] of Object.entries(q.edits)) add(/^\d/.test(key) ? `l${key}` : key, value);
  add("dead", q.dead.join(","));
  for (const [key, value] of Object.entries(q.limits)) add(`set.${key}`, value);
  for (const [key, value] of Object.entries(q.more)) add(key, value);
  if (q.x !== "tp" || q.y !== "pp") add("map", `${q.x},${q.y}`);
  if (q.price !== 2.5) add("price", q.price);
  return words.join("&");
}

// Readable where an address allows it: commas, colons, slashes and quotes-free words stay as they are.
function escape(text: string): string {
  return encodeURIComponent(text).replace(/%(2C|3A|2F|40|20)/g,
      (code) => code === "%20" ? "+" : decodeURIComponent(code));
}

function unescape(text: string): string {
  return decodeURIComponent(text.replace(/\+/g, "%20"));
}

export interface ReadLink {
  question: Question;
  notes: string[];  // what the reader should be told about the link
}

export function fromFragment(fragment: string): ReadLink | null {
  const text = fragment.replace(/^#/, "");
  if (!text) return null;
  const q = { ...firstQuestion(), devices: null, batch: null } as Question;
  const notes: string[] = [];
  const unknown: string[] = [];
  const texts: Record<string, string> = {};
  let version = 0;
  for (const pair of text.split("&")) {
    const at = pair.indexOf("=");
    if (at < 1) continue;
    const key = pair.slice(0, at);
    let value: string;
    try {
      value = unescape(pair.slice(at + 1));
    } catch {
      notes.push(`The link's ${key} could not be read.`);
      continue;
    }
    if (key === "v") {
      version = Number(value) || 0;
    } else if (key === "model" || key === "cluster") {
      q[key] = value;
    } else if (key === "model.text" || key === "cluster.text") {
      texts[key] = value;
    } else if ((kNumbers as readonly string[]).includes(key)) {
      const number = Number(value);
      if (Number.isInteger(number) && number > 0) q[key as "devices"] = number;
      else notes.push(`The link's ${key} is not a whole number: ${value}.`);
    } else if ((kWords as readonly string[]).includes(key)) {
      q[key as "mine"] = value;
    } else if (kEdits.test(key.replace(/^l(?=\d)/, ""))) {
      q.edits[key.replace(/^l(?=\d)/, "")] = value;
    } else if (key === "dead") {
      q.dead = value.split(",").map(Number).filter((n) => Number.isInteger(n) && n >= 0);
    } else if (key.startsWith("set.") && kLimits.includes(key.slice(4))) {
      q.limits[key.slice(4)] = value;
    } else if ((kMore as readonly string[]).includes(key)) {
      q.more[key] = value;
    } else if (key === "map") {
      [q.x, q.y] = value.split(",") as [string, string];
    } else if (key === "price") {
      q.price = Number(value) || q.price;
    } else {
      unknown.push(key);
    }
  }
  if (texts["model.text"] !== undefined) q.modelDocument = { name: q.model, text: texts["model.text"] };
  if (texts["cluster.text"] !== undefined) q.clusterDocument = { name: q.cluster, text: texts["cluster.text"] };
  if (version < kVersion) {
    notes.unshift(`This link is of an older version of this page (${version || "none is named"}; now ${kVersion}). ` +
                  "It is shown as well as it can be; check the question.");
  } else if (version > kVersion) {
    notes.unshift(`This link is of a newer version of this page (${version}; this one reads ${kVersion}).`);
  }
  if (unknown.length > 0) notes.push(`Not understood in the link: ${unknown.join(", ")}.`);
  return { question: q, notes };
}

// Undo and redo. Changes of one control that follow each other closely are one step.
export class History {
  private past: string[] = [];
  private future: string[] = [];
  private present: string;
  private lastKey = "";
  private lastTime = 0;

  constructor(first: Question) {
    this.present = JSON.stringify(first);
  }

  record(question: Question, key: string, now: number): void {
    const text = JSON.stringify(question);
    if (text === this.present) return;
    const together = key === this.lastKey && now - this.lastTime < 900;
    if (!together) this.past.push(this.present);
    if (this.past.length > 200) this.past.shift();
    this.present = text;
    this.future = [];
    this.lastKey = key;
    this.lastTime = now;
  }

  get canUndo(): boolean {
    return this.past.length > 0;
  }
  get canRedo(): boolean {
    return this.future.length > 0;
  }

  undo(): Question | null {
    return this.step(this.past, this.future);
  }
  redo(): Question | null {
    return this.step(this.future, this.past);
  }

  private step(from: string[], to: string[]): Question | null {
    const text = from.pop();
    if (text === undefined) return null;
    to.push(this.present);
    this.present = text;
    this.lastKey = "";
    return JSON.parse(text) as Question;
  }
}
