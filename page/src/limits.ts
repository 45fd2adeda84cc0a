// Every dimension of a plan that a search can be limited in, and the switches of the search, as `--set` knows them.

export interface Dimension {
  key: string;
  name: string;
  about: string;
  words?: string[];    // values, of which a list may be admitted
  choice?: [value: string, name: string][];
}

const kWith: [string, string][] = [["", "either"], ["1", "with"], ["0", "without"]];
const kYes: [string, string][] = [["", "default"], ["1", "yes"], ["0", "no"]];
const kRange = "8, or 1..16, or 1,2,4. Empty: all are searched.";

export const kDimensions: [title: string, Dimension[]][] = [
  ["Degrees", [
    { key: "tp", name: "Tensor", about: `Devices that divide every matrix: ${kRange}` },
    { key: "cp", name: "Context", about: `Devices that divide every sequence: ${kRange}` },
    { key: "ep", name: "Experts", about: `Devices over which the experts are spread: ${kRange}` },
    { key: "etp", name: "In an expert", about: `Devices that divide one expert: ${kRange}` },
    { key: "pp", name: "Stages", about: `Stages of the pipeline: ${kRange}` },
    { key: "vpp", name: "Chunks", about: `Runs of layers that each stage holds: ${kRange}` },
    { key: "dp", name: "Replicas", about: `Replicas that read different sequences: ${kRange}` },
    { key: "mbs", name: "Micro-batch", about: `Sequences that pass together: ${kRange}` },
  ]],
  ["Memory", [
    { key: "zero", name: "ZeRO", about: "What replicas divide among them: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 weights too. A list: 0,1.", words: ["0", "1", "2", "3", "0,1"] },
    { key: "recompute", name: "Recompute", about: "What is computed again instead of kept. A list of none, selective, full, modules, block, uniform, or of modules: none,moe_act+layernorm.",
      words: ["none", "selective", "full", "none,selective", "modules", "block", "uniform"] },
    { key: "offload", name: "On the host", about: "What modules keep for the backward pass may wait in the host's memory: none, modules, or some by name: core_attn+attn_proj.", words: ["none", "modules", "none,modules"] },
    { key: "zero_outer", name: "Outer ZeRO", about: "With weights sharded over some ranks: the optimizer's state over all replicas.", choice: kWith },
    { key: "shard_in_node", name: "Shard in node", about: "Whether state may be divided inside a node and repeated between nodes.", choice: kYes },
  ]],
  ["Order", [
    { key: "schedule", name: "Schedule", about: "In which order stages work. A list of 1f1b, interleaved, gpipe, zb-h1, zbv, v-half, v-min, dualpipev.",
      words: ["1f1b", "interleaved", "1f1b,interleaved", "gpipe", "zb-h1", "zbv", "v-half", "v-min", "dualpipev"] },
    { key: "sp", name: "Sequence", about: "Whether norms and dropout are divided along the sequence.", choice: kWith },
    { key: "cp_comm", name: "Contexts by", about: "How the ranks of a sequence exchange keys and values, or heads. A list of p2p, all_gather, a2a, a2a+p2p.", words: ["p2p", "all_gather", "a2a", "a2a+p2p"] },
    { key: "cp_inner", name: "Trade heads", about: `Neighbours that trade tokens for heads under a2a+p2p: ${kRange}` },
    { key: "defer_head", name: "Head at the end", about: "Whether weight gradients of the last layer wait until the pipeline drains.", choice: kWith },
    { key: "any_rounds", name: "Odd rounds", about: "Whether interleaved schedules may run micro-batches that are no multiple of the stages.", choice: kYes },
  ]],
  ["Place and shares", [
    { key: "dp_inner", name: "Side by side", about: `Neighbouring replicas of one stage: ${kRange}` },
    { key: "pitch", name: "Leave gaps", about: "Whether pipelines may start at node or rack boundaries and leave devices idle between.", choice: kYes },
    { key: "all_devices", name: "Use all", about: "Whether every device must be used.", choice: kYes },
    { key: "uneven_batch", name: "Uneven batch", about: "Whether the batch need not divide by micro-batch and replicas.", choice: kYes },
    { key: "uniform", name: "Stages alike", about: "Whether all stages must treat recomputation and sharding alike.", choice: kYes },
    { key: "even_cuts", name: "Even cuts", about: "Whether every chunk must have as many layers.", choice: kYes },
  ]],
];

export const kLimits: string[] = kDimensions.flatMap(([, dimensions]) => dimensions.map(({ key }) => key));
