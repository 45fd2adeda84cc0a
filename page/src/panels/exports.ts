// The plan in the words of those who run it; the command line and the Python lines that give the same.

import { clusterArgument, isEdited } from "../cluster_edit";
import { copyButton, download, h, put } from "../dom";
import { Cancelled } from "../engine";
import { seconds, signedPercent } from "../format";
import { Panel, type Context } from "../panel";
import type { Question } from "../state";
import { failureOf, isPlan, type Dict, type Json, type Plan } from "../types";

const kTargets: [string, string, string, Record<string, Json>][] = [
  ["megatron", "Megatron", "megatron.args", {}], ["nemo", "NeMo", "nemo.txt", {}], ["deepspeed", "DeepSpeed", "ds_config.json", {}],
  ["torchtitan", "torchtitan", "train.toml", {}], ["fsdp", "FSDP", "fsdp.yaml", {}], ["sbatch", "sbatch", "job.sbatch", {}],
  ["rankfile", "rank file", "ranks.txt", {}],
];
const kTexts = ["toml", "script", "yaml", "python", "csv", "text", "rankfile", "hostfile", "content"];

// What the export holds, as the text that goes into a file.
export function textOf(answer: Dict): string {
  const environment = Object.entries((answer.environment as Dict | undefined) ?? {}).map(([key, value]) => `export ${key}=${String(value)}\n`).join("");
  for (const key of kTexts) {
    if (typeof answer[key] === "string") return answer[key] as string;
  }
  if (Array.isArray(answer.options)) return environment + pairs(answer.options as string[]);
  if (Array.isArray(answer.overrides)) return environment + (answer.overrides as string[]).join("\n");
  if (answer.config !== undefined) return JSON.stringify(answer.config, null, 2);
  const { plan: _plan, ...rest } = answer;
  return JSON.stringify(rest, null, 2);
}

// One option with its value per line.
function pairs(words: string[]): string {
  const lines: string[] = [];
  for (const word of words) {
    if (word.startsWith("--") || lines.length === 0) lines.push(word);
    else lines[lines.length - 1] += ` ${quoted(word)}`;
  }
  return lines.join(" \\\n");
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`;
}

interface Files {
  [name: string]: string;
}

function filesOf(q: Question): Files {
  const files: Files = {};
  if (q.modelDocument) files["config.json"] = q.modelDocument.text;
  if (q.clusterDocument || isEdited(q)) files["cluster.json"] = JSON.stringify(clusterArgument(q).cluster, null, 1);
  return files;
}

export function commandOf(q: Question): string {
  const files = filesOf(q);
  const words: string[][] = [["nest", "plan"], ["--model", files["config.json"] ? "config.json" : q.model],
    ["--cluster", files["cluster.json"] ? "cluster.json" : q.cluster]];
  const devices = clusterArgument(q).devices;
  if (devices !== null) words.push(["--devices", String(devices)]);
  if (q.batch !== null) words.push(["--global-batch", String(q.batch)]);
  if (q.seq !== null) words.push(["--seq", String(q.seq)]);
  for (const key of ["precision", "stack", "optimizer", "target", "objective"] as const) {
    if (q[key]) words.push([`--${key}`, q[key]]);
  }
  for (const [key, value] of Object.entries(q.more)) words.push([`--${key.replace(/_/g, "-")}`, value]);
  for (const [key, value] of Object.entries(q.limits)) words.push(["--set", `${key}=${value}`]);
  return words.map((pair) => pair.map(quoted).join(" ")).join(" ");
}

export function pythonOf(q: Question): string {
  const files = filesOf(q);
  const text = (value: string): string => JSON.stringify(value);
  const words = [text(files["config.json"] ? "config.json" : q.model), text(files["cluster.json"] ? "cluster.json" : q.cluster)];
  const devices = clusterArgument(q).devices;
  if (devices !== null) words.push(`devices=${devices}`);
  if (q.batch !== null) words.push(`global_batch=${q.batch}`);
  if (q.seq !== null) words.push(`seq=${q.seq}`);
  for (const key of ["precision", "stack", "optimizer", "target", "objective"] as const) {
    if (q[key]) words.push(`${key}=${text(q[key])}`);
  }
  for (const [key, value] of Object.entries(q.more)) words.push(`${key}=${/^\d+$/.test(value) ? value : text(value)}`);
  const limits = Object.entries(q.limits);
  if (limits.length > 0) words.push(`set={${limits.map(([key, value]) => `${text(key)}: ${text(value)}`).join(", ")}}`);
  return `import nest\nplan = nest.plan(${words.join(", ")})\nprint(plan)`;
}

export class ExportPanel extends Panel {
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "frameworks" });
  private readonly page = h("div", { role: "tabpanel", id: "export-page" });
  private readonly same = h("div", {});
  private chosen = "megatron";

  constructor() {
    super("exports", "To run it", false, true);
    for (const [key, name] of [...kTargets.map(([key, name]) => [key, name] as const), ["plan", "plan.json"] as const]) {
      this.tabs.append(h("button", { type: "button", role: "tab", id: `to-${key}`, class: "small", "aria-controls": "export-page", data: { target: key },
        on: { click: () => {
          this.chosen = key;
          void this.open();
        } } }, name));
    }
    // As tabs are everywhere: one stop of the Tab key, arrows go from one to the next.
    this.tabs.addEventListener("keydown", (event) => {
      const all = [...this.tabs.querySelectorAll("button")];
      const at = all.findIndex((tab) => tab.dataset.target === this.chosen);
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
      const tab = next === undefined ? undefined : all[(next + all.length) % all.length];
      if (!tab) return;
      event.preventDefault();
      tab.click();
      tab.focus();
    });
    put(this.body, this.tabs, this.page, this.same);
  }

  protected override applies(context: Context): boolean {
    return isPlan(context.answer);
  }

  protected async show(context: Context): Promise<void> {
    this.say("The plan in a framework's words. What a framework cannot be told is said, with what that costs.");
    const q = context.question;
    const files = Object.entries(filesOf(q));
    const block = (title: string, text: string): HTMLElement => h("div", {}, h("div", { class: "headed" }, h("h3", {}, title), copyButton(() => text, `the ${title.toLowerCase()}`)), h("pre", {}, text));
    put(this.same, h("h3", {}, "The same by other ways"),
      ...files.map(([name, text]) => h("p", {}, h("button", { type: "button", class: "small", on: { click: () => download(name, text, "application/json") } }, `Save ${name}`))),
      block("Command line", commandOf(q)), block("Python lines", pythonOf(q)));
    await this.open();
  }

  private async open(): Promise<void> {
    const context = this.context;
    if (!context) return;
    for (const tab of this.tabs.querySelectorAll("button")) {
      tab.setAttribute("aria-selected", String(tab.dataset.target === this.chosen));
      tab.tabIndex = tab.dataset.target === this.chosen ? 0 : -1;
    }
    this.page.setAttribute("aria-labelledby", `to-${this.chosen}`);
    const plan = context.answer as Plan;
    if (this.chosen === "plan") {
      this.print("plan.json", JSON.stringify(plan, null, 2), []);
      return;
    }
    const [key, name, file, extra] = kTargets.find(([one]) => one === this.chosen) ?? (kTargets[0] as (typeof kTargets)[0]);
    put(this.page, h("p", { class: "waiting" }, `asking for ${name} …`));
    try {
      const answer = (await context.ask("export", { plan: plan as unknown as Json, to: key, ...extra }, { instead: "export" })) as Dict;
      if (!context.isCurrent() || this.chosen !== key) return;
      const failed = failureOf(answer);
      if (failed !== null) {
        put(this.page, h("p", { class: "message" }, failed));
        return;
      }
      const notes = [...((answer.notes as string[] | undefined) ?? [])];
      if (answer.as_asked === false) {
        notes.unshift(`${name} ${((answer.cannot as string[] | undefined) ?? []).join("; ")}. This is the fastest plan that it can run: ` +
                      `${seconds(Number(answer.iteration_s))}, ${signedPercent(Number(answer.excess))}.`);
      }
      this.print(file, textOf(answer), notes);
    } catch (error) {
      if (!(error instanceof Cancelled)) throw error;
    }
  }

  private print(name: string, text: string, notes: string[]): void {
    put(this.page, ...notes.map((note) => h("p", { class: "muted" }, note)),
      h("p", {}, copyButton(() => text, name), " ", h("button", { type: "button", class: "small", on: { click: () => download(name, text, "text/plain") } }, `Save ${name}`)),
      h("pre", {}, text));
  }
}
