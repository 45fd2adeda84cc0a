// What somebody drops or pastes: a model, a cluster, a launch line, or what a site's tools print.

import { parse } from "yaml";
import type { Document } from "./state";

export type Dropped =
  | { kind: "model"; document: Document }
  | { kind: "cluster"; document: Document }
  | { kind: "import"; document: Document }   // topology.conf, nvidia-smi topo -m, ibnetdiscover, NCCL's XML
  | { kind: "mine"; text: string };

export class Unreadable extends Error {}

const kLargest = 200e6;  // characters; a traced graph of a large model has some millions

export function recognise(name: string, text: string): Dropped {
  if (text.trim() === "") throw new Unreadable(`${name}: is empty`);
  if (text.length > kLargest) throw new Unreadable(`${name}: is larger than 200 MB`);
  const start = text.trimStart()[0];
  if (start === "{" || start === "[") return ofObject(name, jsonOf(name, text), text);
  if (/\.ya?ml$/i.test(name) || /^\s*(levels|torus|graph|device)\s*:/m.test(text)) {
    let value: unknown;
    try {
      value = parse(text);
    } catch (error) {
      throw new Unreadable(`${name}: is no YAML: ${firstLine(error)}`);
    }
    if (isObject(value) && ("levels" in value || "torus" in value || "graph" in value)) {
      return { kind: "cluster", document: { name, text: JSON.stringify(value) } };
    }
    if (isObject(value) && ("topologies" in value || Array.isArray(value))) {
      return { kind: "import", document: { name, text } };
    }
    if (isObject(value) && ("model_type" in value || "hidden_size" in value)) {
      return { kind: "model", document: { name, text: JSON.stringify(value) } };
    }
    if (/^\s*-?\s*(tree|block|flat)\s*:/m.test(text)) return { kind: "import", document: { name, text } };
    throw new Unreadable(`${name}: is YAML, but neither a cluster (levels, torus or graph) nor a model`);
  }
  if (/^\s*(SwitchName|BlockName|BlockSizes)\s*=/im.test(text) || /GPU0\s+GPU1/.test(text) ||
      /^(Switch|Ca)\s+\d+\s+"/m.test(text) || /^\s*<(\?xml|system)/.test(text)) {
    return { kind: "import", document: { name, text } };
  }
  if (/torchrun|deepspeed|srun|pretrain|--tensor-model-parallel|accelerate|mpirun/.test(text) ||
      /^\s*(tp|pp|dp|cp|ep|sp|mbs)\b\s*=?/.test(text)) {
    return { kind: "mine", text: text.trim() };
  }
  throw new Unreadable(`${name}: is not recognised. A model is a config.json or a graph.json; a cluster is YAML or ` +
                       "JSON with levels, or Slurm's topology.conf, the output of `nvidia-smi topo -m` or " +
                       "ibnetdiscover, or NCCL's XML; your own set-up is a launch line or a strategy.");
}

function jsonOf(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Unreadable(`${name}: is no JSON: ${firstLine(error)}`);
  }
}

function ofObject(name: string, value: unknown, text: string): Dropped {
  if (isObject(value)) {
    const schema = String(value.schema ?? "");
    if ("levels" in value || "torus" in value || ("graph" in value && "device" in value)) {
      return { kind: "cluster", document: { name, text: JSON.stringify(value) } };
    }
    if ("model_type" in value || "hidden_size" in value || "n_embd" in value || "architectures" in value ||
        schema.startsWith("nest.graph")) {
      return { kind: "model", document: { name, text: JSON.stringify(value) } };
    }
    if ("train_micro_batch_size_per_gpu" in value || "zero_optimization" in value) return { kind: "mine", text };
  }
  throw new Unreadable(`${name}: is JSON, but neither a model (model_type, hidden_size …) nor a cluster (device, levels …)`);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function firstLine(error: unknown): string {
  return String((error as Error).message ?? error).split("\n")[0] ?? "";
}

// YAML of an imported cluster as the document that a question keeps.
export function clusterOfYaml(name: string, yaml: string): Document {
  return { name, text: JSON.stringify(parse(yaml)) };
}
