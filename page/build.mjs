// Makes the page: one file that holds everything, and the same as separate files for hosting.
//   node build.mjs [--planner FOLDER with nest.js and nest.wasm] [--output FOLDER]
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { parse } from "yaml";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const { values: options } = parseArgs({ options: {
  planner: { type: "string", default: join(root, "build/page") },
  output: { type: "string", default: join(root, "build/page") },
} });

function presets() {
  const of = (folder, ending, read) => readdirSync(join(root, "data", folder)).filter((name) => name.endsWith(ending)).sort()
      .map((name) => [basename(name, ending), read(readFileSync(join(root, "data", folder, name), "utf8"))]);
  const models = of("models", ".json", JSON.parse).map(([name, config]) => ({
    name, description: config.nest?.description ?? name, parameters: config.nest?.parameters ?? 0,
    sequence: config.nest?.sequence ?? 0,
    experts: Object.keys(config).some((key) => /num_(local_|routed_)?experts|n_routed_experts/.test(key)),
  }));
  const version = /project\(nest\s+VERSION\s+([0-9.]+)/.exec(readFileSync(join(root, "CMakeLists.txt"), "utf8"))?.[1] ?? "";
  return { models, clusters: Object.fromEntries(of("clusters", ".yaml", parse)),
    devices: Object.fromEntries(of("devices", ".yaml", parse)), version,
    stacks: of("stacks", ".yaml", parse).map(([name, stack]) => ({ name, description: stack.description ?? "" })) };
}

// Modules that are made here: data of the repository, and the worker as text.
function made(name, contents) {
  return { name, setup(build) {
    build.onResolve({ filter: new RegExp(`^${name}$`) }, () => ({ path: name, namespace: name }));
    build.onLoad({ filter: /.*/, namespace: name }, () => ({ contents, loader: "js" }));
  } };
}

const common = { bundle: true, write: false, target: "es2022", minify: true, legalComments: "none", charset: "utf8" };
const worker = await build({ ...common, entryPoints: [join(here, "src/worker.ts")], format: "iife" });
const loader = readFileSync(join(options.planner, "nest.js"), "utf8");
const workerText = `${loader}\n${worker.outputFiles[0].text}`;
const data = Object.entries(presets()).map(([key, value]) => `export const ${key} = ${JSON.stringify(value)};`).join("\n");
const page = await build({ ...common, entryPoints: [join(here, "src/main.ts")], format: "iife",
  plugins: [made("nest:presets", data), made("nest:worker", `export default ${JSON.stringify(workerText)};`)] });
const style = (await build({ ...common, entryPoints: [join(here, "src/style.css")] })).outputFiles[0].text.trim();
// A closing tag inside a text would end the script early.
const script = page.outputFiles[0].text.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
const wasm = readFileSync(join(options.planner, "nest.wasm"));

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = (scripts, styles, connect) => [
  "default-src 'none'", `script-src ${scripts} 'wasm-unsafe-eval'`, `style-src ${styles}`, "worker-src blob:",
  "img-src data: blob:", `connect-src ${connect}`, "base-uri 'none'", "form-action 'none'"].join("; ");
const template = readFileSync(join(here, "src/index.html"), "utf8");
const licenses = readFileSync(join(here, "LICENSES"), "utf8");
const fill = (parts) => template.replace(/\{\{(\w+)\}\}/g, (_, name) => ({ licenses, ...parts })[name]);

const whole = fill({
  policy: policy(hash(script), hash(style), "'none'"),
  style: `<style>${style}</style>`,
  wasm: `<script type="application/wasm" id="wasm">${gzipSync(wasm, { level: 9 }).toString("base64")}</script>`,
  script: `<script>${script}</script>`,
});
const hosted = fill({
  policy: policy("'self'", "'self'", "'self'"),
  style: '<link rel="stylesheet" href="page.css">',
  wasm: "",
  script: '<script src="page.js"></script>',
});
mkdirSync(join(options.output, "hosted"), { recursive: true });
writeFileSync(join(options.output, "index.html"), whole);
for (const [name, content] of [["index.html", hosted], ["page.js", script], ["page.css", style], ["nest.wasm", wasm],
  ["LICENSES", licenses]]) {
  writeFileSync(join(options.output, "hosted", name), content);
}
const mega = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;
console.log(`${join(options.output, "index.html")}: ${mega(whole.length)}, ${mega(gzipSync(whole, { level: 9 }).length)} compressed`);
