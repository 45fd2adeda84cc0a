// Made by build.mjs of the repository's data/: what has a name.
declare module "nest:presets" {
  export const models: { name: string; description: string; parameters: number; sequence: number; experts: boolean }[];
  export const clusters: Record<string, import("./types").ClusterDescription>;
  export const devices: Record<string, import("./types").Dict>;
  export const stacks: { name: string; description: string }[];
  export const version: string;
}
