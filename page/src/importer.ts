// A cluster from what Slurm, nvidia-smi, ibnetdiscover or NCCL print. What the file does not say, mostly bandwidths, is
// asked for; the file is not lost meanwhile.

import { h, put } from "./dom";
import type { Given } from "./drop";
import { failureOf, type Json } from "./types";

interface Missing {
  option: string;   // "bandwidth"
  prefix: string;   // "leaf="
  example: string;  // "400Gbps"
  question: string;
}

export class Importer {
  readonly element = h("div", { class: "message note", role: "group", "aria-label": "import of a cluster" });
  private readonly device: HTMLInputElement;
  private readonly verdict = h("p", { role: "status" });
  private readonly facts = h("div", { class: "controls" });
  private fields: { fact: Missing; box: HTMLInputElement }[] = [];

  constructor(private readonly files: Given[], device: string,
              private readonly ask: (args: Record<string, Json>) => Promise<unknown>,
              private readonly done: (yaml: string) => void) {
    this.device = h("input", { type: "text", value: device, spellcheck: "false" });
    put(this.element, h("strong", {}, `Import of ${files.map((file) => file.name).join(" and ")}`), this.verdict,
      h("div", { class: "controls" }, h("label", {}, "device", this.device)), this.facts,
      h("p", {}, h("button", { type: "button", on: { click: () => void this.run() } }, "Read it"), " ",
        h("button", { type: "button", on: { click: () => this.element.remove() } }, "Close")));
  }

  async run(): Promise<void> {
    const args: Record<string, Json> = { files: this.files.map(({ name, text }) => ({ name, text })), device: this.device.value.trim() };
    for (const { fact, box } of this.fields) {
      const given = (args[fact.option] as Json[] | undefined) ?? [];
      args[fact.option] = [...given, `${fact.prefix}${box.value.trim() || fact.example}`];
    }
    this.verdict.textContent = "Reading …";
    try {
      const answer = (await this.ask(args)) as { schema?: string; missing?: Missing[]; yaml?: string };
      const failed = failureOf(answer);
      if (failed !== null) {
        this.verdict.textContent = failed;
      } else if (answer.missing) {
        this.askFor(answer.missing);
      } else {
        this.element.remove();
        this.done(String(answer.yaml));
      }
    } catch (error) {
      this.verdict.textContent = `not read: ${String((error as Error).message)}; press Read it to try again`;
    }
  }

  private askFor(missing: Missing[]): void {
    this.verdict.textContent = "The file does not say all. Mend these examples, then read it:";
    for (const fact of missing) {
      if (this.fields.some((field) => field.fact.option === fact.option && field.fact.prefix === fact.prefix)) continue;
      this.fields.push({ fact, box: h("input", { type: "text", value: fact.example, spellcheck: "false" }) });
    }
    put(this.facts, ...this.fields.map(({ fact, box }) => h("label", {}, `${fact.prefix.replace("=", ": ")}${fact.question}`, box)));
  }
}
