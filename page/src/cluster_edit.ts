// The cluster of a question: a preset or a document, with what has been changed on the page.

import { clusters, devices } from "nest:presets";
import type { Question } from "./state";
import type { ClusterDescription, Dict, Json, Level } from "./types";

// As it stands before any change; null where neither a preset nor a readable document is named.
export function baseCluster(q: Question): ClusterDescription | null {
  if (q.clusterDocument) {
    try {
      return JSON.parse(q.clusterDocument.text) as ClusterDescription;
    } catch {
      return null;
    }
  }
  return clusters[q.cluster] ?? null;
}

export function deviceOf(cluster: ClusterDescription): Dict | null {
  if (typeof cluster.device !== "string") return cluster.device;
  const named = cluster.device;
  return devices[named] ??
         Object.values(devices).find((d) => ((d.aliases as string[] | undefined) ?? []).includes(named)) ?? null;
}

export function isEdited(q: Question): boolean {
  return Object.keys(q.edits).length > 0 || q.dead.length > 0;
}

function changed(q: Question, base: ClusterDescription): ClusterDescription {
  const cluster = structuredClone(base);
  for (const [key, value] of Object.entries(q.edits)) {
    if (key === "hbm") {
      const device = deviceOf(cluster);
      if (device) cluster.device = { ...structuredClone(device), memory: value };
      continue;
    }
    if (key === "torus.bandwidth") {
      if (cluster.torus) cluster.torus.bandwidth = value;
      continue;
    }
    const [at, name] = [Number(key.slice(0, 1)), key.slice(2)];
    const level = cluster.levels?.[at];
    if (!level) continue;
    if (name === "rails") level.rails = value === "true";
    else if (name === "group") level.group = Number(value);
    else if (name === "oversubscription") level.oversubscription = Number(value);
    else level[name] = value;
  }
  return cluster;
}

export interface ClusterArgument {
  cluster: string | ClusterDescription;
  devices: number | null;  // null: all of it
}

// What the planner is given. An untouched preset goes by its name.
export function clusterArgument(q: Question): ClusterArgument {
  const base = baseCluster(q);
  if (!base) return { cluster: q.clusterDocument ? q.clusterDocument.text : q.cluster, devices: q.devices };
  if (!isEdited(q)) return { cluster: q.clusterDocument ? base : q.cluster, devices: q.devices };
  const cluster = changed(q, base);
  if (q.dead.length === 0) return { cluster, devices: q.devices };
  const left = withoutNodes(cluster, q.devices, q.dead);
  return left ? { cluster: left, devices: null } : { cluster, devices: q.devices };
}

function used(level: Level): number {
  return level.use ?? level.group ?? 1;
}

// How fast a kind of link is, and by which key that is changed: of a level, or of all links of a torus.
export function linkOf(cluster: ClusterDescription, at: number): { key: string; bandwidth: string | number; name: string } | null {
  const level = cluster.levels?.[at];
  if (level) return { key: `${at}.bandwidth`, bandwidth: level.bandwidth, name: level.name ?? "this level" };
  const bandwidth = cluster.torus?.bandwidth;
  return typeof bandwidth === "string" || typeof bandwidth === "number" ? { key: "torus.bandwidth", bandwidth, name: "the torus" } : null;
}

// Devices of one node, and how many nodes hold so many devices; null for networks that have no nodes. Racks with spares
// (`use` of `group`) are taken whole where that divides.
export function nodesOf(cluster: ClusterDescription, count: number | null): { size: number; nodes: number } | null {
  const inner = cluster.levels?.[0];
  if (!inner || inner.counts || cluster.levels === undefined || cluster.levels.length < 2) return null;
  // Listed counts of a level say how many units of the level inside there are in all.
  let nodes = 1;
  for (const level of cluster.levels.slice(1)) {
    nodes *= level.counts ? level.counts.reduce((a, b) => a + b, 0) : used(level);
    if (level.counts) break;
  }
  const all = count ?? cluster.devices ?? used(inner) * nodes;
  const size = [inner.group ?? 1, used(inner)].find((one) => all % one === 0);
  return size === undefined ? null : { size, nodes: all / size };
}

// The first `count` devices of the cluster less some nodes: units that differ in size are written as counts.
export function withoutNodes(
    cluster: ClusterDescription, count: number | null, dead: number[]): ClusterDescription | null {
  const some = nodesOf(cluster, count);
  if (!some || !cluster.levels) return null;
  const left = structuredClone(cluster);
  const levels = left.levels as Level[];
  if (levels[0]?.use !== undefined) levels[0].use = some.size;
  const gone = new Set(dead);
  // children[i]: for every unit of this level, which units of the level inside it holds.
  let alive: boolean[] = Array.from({ length: some.nodes }, (_, node) => !gone.has(node));
  for (let i = 1; i < levels.length; ++i) {
    const level = levels[i] as Level;
    const outermost = i === levels.length - 1;
    const sizes: number[] = [];
    if (level.counts && count === null) {
      sizes.push(...level.counts);
    } else {
      const group = outermost ? alive.length : used(level);
      for (let begin = 0; begin < alive.length; begin += group) sizes.push(Math.min(group, alive.length - begin));
    }
    const counts: number[] = [];
    const next: boolean[] = [];
    let at = 0;
    for (const size of sizes) {
      const living = alive.slice(at, at + size).filter(Boolean).length;
      at += size;
      next.push(living > 0);
      if (living > 0) counts.push(living);
    }
    delete level.group;
    delete level.use;
    level.counts = counts;
    alive = next;
  }
  delete left.devices;
  delete left.resize;
  if (left.node_names) left.node_names = left.node_names.slice(0, some.nodes).filter((_, node) => !gone.has(node));
  return left;
}

// What `plan`, `evaluate` and the others are asked about.
export function jobArguments(q: Question): Record<string, Json> {
  const asked: Record<string, Json> = {};
  asked.model = q.modelDocument ? modelArgument(q.modelDocument.text) : q.model;
  const where = clusterArgument(q);
  asked.cluster = where.cluster as Json;
  if (where.devices !== null) asked.devices = where.devices;
  if (q.batch !== null) asked.global_batch = q.batch;
  if (q.seq !== null) asked.seq = q.seq;
  for (const key of ["precision", "stack", "optimizer"] as const) {
    if (q[key]) asked[key] = q[key];
  }
  for (const key of ["routing", "freeze", "lora", "oom_risk"]) {
    const value = q.more[key];
    if (value) asked[key] = value;
  }
  if (q.more.optimizer_offload) asked.optimizer_offload = Number(q.more.optimizer_offload);
  return asked;
}

function modelArgument(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

export function searchArguments(q: Question): Record<string, Json> {
  const asked = jobArguments(q);
  const set = Object.entries(q.limits).filter(([, value]) => value !== "").map(([key, value]) => `${key}=${value}`);
  if (set.length > 0) asked.set = set;
  if (q.target) asked.target = q.target;
  if (q.objective) asked.objective = q.objective;
  if (q.more.offload) asked.offload = q.more.offload;
  if (q.more.max_devices) asked.max_devices = Number(q.more.max_devices);
  return asked;
}
