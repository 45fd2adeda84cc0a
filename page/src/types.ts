// What the planner answers, as far as the page reads it: docs/formats.md and `nest schema` have all of it.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Dict = { [key: string]: Json };

export const kParts = ["compute", "recompute", "bubble", "tp", "cp", "ep", "p2p", "zero", "grad_sync", "optimizer",
  "other"] as const;
export type Part = (typeof kParts)[number];
export const kMemoryParts = ["weights", "gradients", "optimizer", "activations", "working", "buffers"] as const;
export type MemoryPart = (typeof kMemoryParts)[number];

export interface Prediction {
  iteration_s: number;
  samples_per_s: number;
  tokens_per_s_per_device: number;
  flops_per_s_per_device: number;
  mfu: number;
  peak_memory_bytes: number;
  breakdown_s: Record<Part, number>;
  spread?: number;
  interval_s?: [number, number];
}

export interface Stage {
  layers: [number, number];
  devices: number[];
  zero: number;
  recompute: string;
  time_s: Record<string, number>;
  memory_bytes: Record<MemoryPart | "total" | "in_flight", number>;
}

export interface Strategy {
  tp: number; sp: boolean; cp: number; ep: number; etp: number; pp: number; dp: number; edp: number;
  virtual_stages: number; schedule: string; micro_batch: number; dp_inner: number; pitch: number;
  offload?: string;  // modules that wait on the host, or none
}

// Plans that were executed on the simulated network; `formula` only where that is what judged.
export interface Execution {
  simulated_s: number;
  executed: number;
  complete: boolean;
  bounded?: number;
  runs?: number;
  least_s?: number;
  certain?: boolean;
  formula?: string;
  formula_s?: number;
  formula_simulated_s?: number;
}

export interface SearchRecord {
  wall_s: number;
  optimal: boolean;
  lower_bound_s: number;
  candidates: number;
  opened: number;
  fastest?: string;
  fastest_s?: number;
  simpler?: string;
  target?: string;
  target_version?: string;
  execution?: Execution;
}

export interface WhyNot {
  name: string;
  outcome: string;
  excess?: number;
  reason: string;
  strategy?: string;
  iteration_s?: number;
  probability_slower?: number;
}

export interface NearestRun {
  id: string; source: string; device: string; devices: number; parameters: number;
  measured_s: number; predicted_s: number; apart: string;
}

export interface ClusterDescription {
  name?: string;
  device: string | Dict;
  levels?: Level[];
  torus?: Dict;
  graph?: Dict;
  devices?: number;
  resize?: Dict;
  node_names?: string[];
  [key: string]: unknown;
}
export interface Level {
  name?: string;
  group?: number;
  counts?: number[];
  use?: number;
  bandwidth: string | number;
  latency?: string | number;
  oversubscription?: number;
  rails?: boolean;
  [key: string]: unknown;
}

export interface Plan {
  schema: "nest.plan/3";
  model: { name: string; title: string; family: string; parameters: number };
  cluster: { name: string; device: string; devices: number; description: ClusterDescription };
  stack: { name: string };
  run: { global_batch: number; seq: number; precision: string; stack: string; optimizer: string; stack_reason?: string;
    optimizer_offload?: number };
  strategy: Strategy;
  stages: Stage[];
  prediction: Prediction;
  executed?: Prediction;
  search?: SearchRecord;
  evaluation: {
    fits: boolean;
    misfit?: string;
    unsure?: string;
    device_memory_bytes: number;
    stages: { needed_bytes: number; out_of_memory: number; moment: string }[];
    assumptions: string[];
  };
  why_not?: WhyNot[];
  nearest_runs?: NearestRun[];
}

export interface NoPlan {
  schema: "nest.no-plan/1";
  devices: number;
  device_memory_bytes: number;
  closest?: { strategy: string; stage: number; needed_bytes: number; missing_bytes: number };
  would_fit?: { devices: number; strategy: string; iteration_s: number };
  text: string;
}

export interface Failure {
  schema: "nest.error/1";
  error: { kind: string; message: string; excerpt?: string };
}

export type Answer = Plan | NoPlan | Failure;

export function isPlan(answer: unknown): answer is Plan {
  return (answer as { schema?: string } | null)?.schema?.startsWith("nest.plan/") ?? false;
}
export function isNoPlan(answer: unknown): answer is NoPlan {
  return (answer as { schema?: string } | null)?.schema?.startsWith("nest.no-plan/") ?? false;
}
export function failureOf(answer: unknown): string | null {
  const failed = answer as Failure | null;
  if (!failed?.schema?.startsWith("nest.error/")) return null;
  return failed.error.excerpt ? `${failed.error.message}\n${failed.error.excerpt}` : failed.error.message;
}

// What is to be expected: of its execution where that takes another time.
export function expected(plan: Plan): Prediction {
  return plan.executed ?? plan.prediction;
}

// One step of a pipeline, stage by stage.
export interface Pipeline {
  schedule: string;
  virtual_stages: number;
  micro_batches: number;
  played: number;     // of them
  played_s: number;
  skipped_s: number;  // what the others take
  iteration_s: number;
  stages: {
    cells: [begin_s: number, end_s: number, pass: number, micro_batch: number, chunk: number][];  // pass: 0 F, 1 B, 2 W
    live: [t_s: number, chunks: number][];  // in flight from t_s on; held are base_bytes + chunks · unit_bytes
    base_bytes: number;
    unit_bytes: number;
  }[];
}

// Which devices are what, and what the links carry.
export interface Layout {
  devices: number;
  tiers: { name: string; made_up: boolean; starts: number[] }[];  // units of every level, innermost first: their first devices
  runs: [begin: number, end: number, stage: number, replica: number][];  // stage -1: idle
  links: {  // one kind per level, innermost first
    name: string;
    links: number;
    bytes_per_s: number;
    busy_s: number;
    busy_share: number;
    load: { traffic: string; busy_s: number }[];
  }[];
}

// One cell of a map: a plan in short, or what is missing, or why there is none.
export interface MapCell {
  outcome: string;  // optimal: proven
  iteration_s?: number;
  lower_bound_s?: number;
  devices?: number;
  tokens_per_s?: number;
  strategy?: string;
  missing_bytes?: number;
  reason?: string;
}
