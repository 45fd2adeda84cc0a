// Made by build.mjs: worker.ts behind the planner's own loader, as one text.
declare module "nest:worker" {
  const source: string;
  export default source;
}
