// What needs no browser: links, changed clusters, recognised files, launch lines and commands.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = mkdtempSync(join(tmpdir(), "nest-page-"));
after(() => rmSync(folder, { recursive: true }));

const presets = `
export const models = [], stacks = [], version = "";
export const devices = {h100: {name: "h100", aliases: ["h100-80"], memory: "79.2GiB", peak: {bf16: "989.5TFLOPS"}}};
export const clusters = {"two-levels": {name: "two-levels", device: "h100-80", levels: [
  {name: "node", group: 8, bandwidth: "450GB/s"}, {name: "unit", group: 4, bandwidth: "50GB/s", rails: true},
  {name: "pod", group: 3, bandwidth: "1.6TB/s"}], resize: {at_most: 1024}}};
`;
const names = ["state", "cluster_edit", "documents", "format", "question", "panels/mine", "panels/pareto", "panels/exports", "engine"];
const m = {};
before(async () => {
  const entry = names.map((name) => `export * from ${JSON.stringify(join(here, "src", `${name}.ts`))};`).join("\n");
  const made = await build({ stdin: { contents: entry, resolveDir: here, loader: "ts" }, bundle: true, write: false, format: "esm", plugins: [{
    name: "presets", setup(b) {
      b.onResolve({ filter: /^nest:presets$/ }, () => ({ path: "presets", namespace: "p" }));
      b.onLoad({ filter: /.*/, namespace: "p" }, () => ({ contents: presets, loader: "js" }));
    } }] });
  const file = join(folder, "all.mjs");
  writeFileSync(file, made.outputFiles[0].text);
  Object.assign(m, await import(pathToFileURL(file).href));
});

test("a link holds the whole question and is readable", () => {
  const q = { ...m.firstQuestion(), devices: 96, batch: null, seq: 4096, precision: "fp8", stack: "fsdp2", edits: { "1.bandwidth": "25GB/s", hbm: "96GiB" },
    dead: [3, 17], limits: { tp: "1..8", zero: "0,1" }, more: { routing: "cv=0.18" }, mine: "torchrun --x 'a b' & c=d#e%", x: "ep", y: "pp", price: 3 };
  const text = m.toFragment(q);
  assert.match(text, /^v=1&model=llama3-70b&cluster=dgx-h100&devices=96&seq=4096&precision=fp8&stack=fsdp2/);
  assert.match(text, /&l1\.bandwidth=25GB\/s&hbm=96GiB&dead=3,17&set\.tp=1\.\.8&set\.zero=0,1&/);
  assert.deepEqual(m.fromFragment(text), { question: q, notes: [] });
  const own = { ...q, model: "evil <b>.json", modelDocument: { name: "evil <b>.json", text: "{\"a\": \"&=#+ é\"}" } };
  assert.deepEqual(m.fromFragment(m.toFragment(own)).question, own);
});

test("links that are old, new or broken say so", () => {
  assert.match(m.fromFragment("model=x").notes[0], /older version/);
  assert.match(m.fromFragment("v=9&model=x").notes[0], /newer version/);
  assert.match(m.fromFragment("v=1&devices=-3").notes[0], /not a whole number/);
  assert.match(m.fromFragment("v=1&model=%E0%A4%A").notes[0], /could not be read/);
  assert.match(m.fromFragment("v=1&shape=round").notes[0], /Not understood in the link: shape/);
  assert.equal(m.fromFragment(""), null);
});

test("undo: close changes of one control are one step", () => {
  const at = (devices) => ({ ...m.firstQuestion(), devices });
  const history = new m.History(at(1));
  history.record(at(2), "devices", 0);
  history.record(at(3), "devices", 100);
  history.record(at(4), "devices", 2000);
  assert.equal(history.undo().devices, 3);
  assert.equal(history.undo().devices, 1);
  assert.equal(history.undo(), null);
  assert.equal(history.redo().devices, 3);
  history.record(at(9), "other", 3000);
  assert.equal(history.canRedo, false);
});

test("failed nodes leave units that differ in size", () => {
  const q = { ...m.firstQuestion(), cluster: "two-levels", devices: null, dead: [0, 4, 5, 6, 7] };
  const { cluster, devices } = m.clusterArgument(q);
  assert.equal(devices, null);
  // 12 nodes in units of 4: one of the first is gone, the second unit is gone whole.
  assert.deepEqual(cluster.levels.map((level) => level.counts ?? level.group), [8, [3, 4], [2]]);
  assert.equal(cluster.resize, undefined);
  // Of 48 devices, 6 nodes, the last unit is half full.
  const less = m.clusterArgument({ ...q, devices: 48, dead: [5] }).cluster;
  assert.deepEqual(less.levels.map((level) => level.counts ?? level.group), [8, [4, 1], [2]]);
  assert.equal(m.nodesOf(cluster, null).nodes, 7);
});

test("a torus has one bandwidth", () => {
  const text = JSON.stringify({ device: "h100", torus: { dims: [4, 4], bandwidth: "90GB/s" } });
  const q = { ...m.firstQuestion(), cluster: "t", clusterDocument: { name: "t", text }, edits: { "torus.bandwidth": "45GB/s" } };
  assert.equal(m.clusterArgument(q).cluster.torus.bandwidth, "45GB/s");
  assert.match(m.toFragment(q), /&torus\.bandwidth=45GB\/s/);
  assert.deepEqual(m.fromFragment(m.toFragment(q)).question.edits, q.edits);
  assert.deepEqual(m.linkOf(JSON.parse(text), 1), { key: "torus.bandwidth", bandwidth: "90GB/s", name: "the torus" });
});

test("racks with spares are taken whole where that divides", () => {
  const cluster = { device: "h100", levels: [{ name: "rack", group: 72, use: 64, bandwidth: "900GB/s" }, { name: "unit", group: 8, bandwidth: "50GB/s" }] };
  assert.deepEqual([m.nodesOf(cluster, 144), m.nodesOf(cluster, 128), m.nodesOf(cluster, 100)], [{ size: 72, nodes: 2 }, { size: 64, nodes: 2 }, null]);
  assert.deepEqual(m.withoutNodes(cluster, 144, [0]).levels.map((level) => level.use ?? level.counts), [72, [1]]);
});

test("changes of a cluster; an untouched preset goes by its name", () => {
  const q = { ...m.firstQuestion(), cluster: "two-levels", devices: 16 };
  assert.deepEqual(m.clusterArgument(q), { cluster: "two-levels", devices: 16 });
  const edited = m.clusterArgument({ ...q, edits: { hbm: "96GiB", "1.bandwidth": "25GB/s", "1.rails": "false", "0.group": "4", "2.oversubscription": "2" } }).cluster;
  assert.deepEqual(edited.device, { name: "h100", aliases: ["h100-80"], memory: "96GiB", peak: { bf16: "989.5TFLOPS" } });
  assert.deepEqual(edited.levels.map((level) => [level.group, level.bandwidth, level.rails, level.oversubscription]),
    [[4, "450GB/s", undefined, undefined], [4, "25GB/s", false, undefined], [3, "1.6TB/s", undefined, 2]]);
});

test("files are recognised by what they hold", () => {
  const kind = (name, text) => m.recognise(name, text).kind;
  assert.equal(kind("config.json", "{\"model_type\": \"llama\"}"), "model");
  assert.equal(kind("c.yaml", "device: h100\nlevels: []"), "cluster");
  assert.equal(kind("c.json", "{\"device\": \"h100\", \"levels\": []}"), "cluster");
  assert.equal(kind("topology.conf", "SwitchName=leaf Nodes=n[1-4]"), "import");
  assert.equal(kind("x", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-47"), "import");
  assert.equal(kind("x", "torchrun --nnodes 2 pretrain_gpt.py"), "mine");
  assert.equal(kind("x", "tp=8 pp=4"), "mine");
  assert.throws(() => m.recognise("x.txt", "hello"), /not recognised/);
  assert.throws(() => m.recognise("x.json", "{"), /is no JSON/);
  assert.throws(() => m.recognise("x.txt", " "), /is empty/);
});

test("strategies, units, commands", () => {
  assert.equal(m.strategyOf("tp=8 sp pp=4"), "tp=8,sp=1,pp=4");
  assert.equal(m.strategyOf("torchrun x --tp=8"), null);
  assert.equal(m.gigabytesPerSecond("450GB/s"), 450);
  assert.equal(m.gigabytesPerSecond("400Gbps"), 50);
  assert.equal(m.gigabytesPerSecond("1.6Tb/s"), 200);
  assert.equal(m.gigabytesPerSecond("fast"), null);
  assert.equal(m.grown("450GB/s", 1.1), "495GB/s");
  assert.deepEqual(m.grown({ bf16: "100TFLOPS", fp32: 10 }, 1.1), { bf16: "110TFLOPS", fp32: 11 });
  assert.equal(m.seconds(7.31083), "7.31 s");
  assert.equal(m.seconds(0.00804), "8.04 ms");
  assert.equal(m.seconds(190), "3.17 min");
  assert.equal(m.count(70553706496), "70.6 B");
  assert.equal(m.gibibytes(74343300557), "69.2");
  assert.deepEqual([m.three(1121.4), m.three(50.94)], ["1,121", "50.9"]);
  assert.deepEqual([m.plural(1, "micro-batch"), m.plural(16, "micro-batch"), m.plural(2, "stage")], ["1 micro-batch", "16 micro-batches", "2 stages"]);
  assert.equal(m.withChange("tp=8,sp=1,pp=4,mbs=1", "tp", "2"), "sp=1,pp=4,mbs=1,tp=2");
  assert.equal(m.withChange("tp=8,sp=1,pp=4,vpp=5,schedule=interleaved,dp=4", "pp", "1"), "tp=8,sp=1,pp=1");
  const q = { ...m.firstQuestion(), limits: { tp: "1..8" }, stack: "it's" };
  assert.equal(m.commandOf(q), "nest plan --model llama3-70b --cluster dgx-h100 --devices 128 --global-batch 128 --stack 'it'\\''s' --set tp=1..8");
  assert.match(m.pythonOf(q), /nest\.plan\("llama3-70b", "dgx-h100", devices=128, global_batch=128, stack="it's", set=\{"tp": "1\.\.8"\}\)/);
  assert.equal(m.textOf({ options: ["--a", "1", "--b"], environment: { X: "1" } }), "export X=1\n--a 1 \\\n--b");
});

// Workers that answer when the test says so.
function bench() {
  const workers = [];
  const engine = new m.Engine(() => {
    const worker = { asked: [], ended: false, onmessage: null, onerror: null,
      postMessage(message) { this.asked.push(message); },
      terminate() { this.ended = true; },
      say(message) { this.onmessage({ data: { id: this.asked.at(-1).id, ...message } }); } };
    workers.push(worker);
    return worker;
  });
  const asked = () => workers.filter((one) => !one.ended).flatMap((one) => one.asked).map((one) => JSON.parse(one.question));
  return { engine, workers, asked, busy: () => workers.filter((one) => one.asked.length > 0 && !one.ended) };
}

test("plans on the way are told before the answer, and not after the question is given up", async () => {
  const { engine, busy, asked } = bench();
  const told = [];
  const answer = engine.main.ask("plan", {}, { told: (plan) => told.push(plan.n) });
  assert.equal(asked()[0].partial, true);
  const [worker] = busy();
  worker.say({ partial: "{\"n\": 1}" });
  worker.say({ partial: "{\"n\": 2}" });
  worker.say({ answer: "{\"n\": 3}" });
  assert.deepEqual([told, await answer], [[1, 2], { n: 3 }]);
  worker.say({ partial: "{\"n\": 4}" });
  const second = engine.main.ask("plan", {}, { told: (plan) => told.push(plan.n) });
  const given_up = assert.rejects(second, m.Cancelled);
  engine.main.cancel();
  worker.say({ partial: "{\"n\": 5}" });
  await given_up;
  assert.deepEqual(told, [1, 2]);
  assert.ok(worker.ended);
  // Who does not listen is told nothing.
  void engine.main.ask("plan", {});
  assert.equal(asked().at(-1).partial, undefined);
});

test("what somebody asks for goes first and takes the worker; of some questions only the last is wanted", async () => {
  const { engine, busy } = bench();
  const running = () => JSON.parse(busy()[0].asked.at(-1).question).tool;
  const cell = engine.side.ask("map", {}, { later: true });
  void engine.side.ask("more", {}, { later: true });
  assert.equal(running(), "map");
  const drawing = engine.side.ask("cluster", {});
  assert.equal(running(), "map");  // it may still end by itself
  await new Promise((done) => setTimeout(done, 250));
  assert.equal(running(), "cluster");
  busy()[0].say({ answer: "1" });
  assert.equal(await drawing, 1);
  assert.equal(running(), "map");  // again
  busy()[0].say({ answer: "2" });
  assert.equal(await cell, 2);
  assert.equal(running(), "more");
  const first = engine.side.ask("evaluate", { n: 1 }, { instead: "mine" });
  const lost = assert.rejects(first, m.Cancelled);
  const second = engine.side.ask("evaluate", { n: 2 }, { instead: "mine" });
  await lost;
  await new Promise((done) => setTimeout(done, 250));
  assert.deepEqual(JSON.parse(busy()[0].asked.at(-1).question).arguments, { n: 2 });
  busy()[0].say({ answer: "3" });
  assert.equal(await second, 3);
});

test("what takes too long is given up with the last plan on the way", async () => {
  const { engine, busy } = bench();
  const answer = engine.side.ask("plan", {}, { later: true, most: 0.05 });
  const [worker] = busy();
  worker.say({ partial: "{\"n\": 1}" });
  const given_up = await answer;
  assert.ok(given_up instanceof m.Unsettled && worker.ended);
  assert.deepEqual(given_up.plan, { n: 1 });
  const quick = engine.side.ask("plan", {}, { later: true, most: 0.05 });
  busy()[0].say({ answer: "2" });
  assert.equal(await quick, 2);
  await new Promise((done) => setTimeout(done, 100));
  assert.ok(!busy()[0].ended);
});
