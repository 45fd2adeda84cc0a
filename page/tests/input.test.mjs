// Ways into the page and ways to fail: limits, files that are dropped and pasted, what does not fit, bad and hostile input.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { answered, browser, dropped, open, panel, settled, stable } from "./browser.mjs";

const kSmall = "v=1&model=llama3-8b&cluster=dgx-h100&devices=16&batch=64";
const kPipelined = "v=1&model=llama3-70b&cluster=dgx-h100&devices=128&batch=128";
let chrome;
before(async () => {
  chrome = await browser();
});
after(() => chrome?.close());

test("no plan fits: what is missing, and what would fit", async () => {
  const { page, finish } = await open(chrome, "v=1&model=llama3-405b&cluster=dgx-h100&devices=16&batch=64");
  const text = await answered(page);
  assert.match(text, /No plan fits/);
  assert.match(text, /GiB/);
  await page.getByRole("button", { name: /Take \d+ devices/ }).click();
  assert.match(await answered(page, 120_000), /Proven/);
  await finish();
});

test("bad input: one clear message, nothing lost", async () => {
  const { page, finish } = await open(chrome, kSmall);
  const first = await answered(page);
  const drop = (name, text) => dropped(page, [[name, text]]);
  for (const [name, text, said] of [["config.json", "{\"hidden_size\": ", /is no JSON/], ["cluster.yaml", "levels: [", /is no YAML/],
    ["notes.txt", "hello", /not recognised/], ["x.json", "{\"a\": 1}", /neither a model/]]) {
    await drop(name, text);
    await page.locator("#notices [role=alert]").waitFor();
    assert.equal(await page.locator("#notices .message").count(), 1);
    assert.match(await page.locator("#notices").innerText(), said);
    assert.equal(stable(await page.locator(".headline").innerText()), stable(first));
    await page.getByRole("button", { name: "close this message" }).click();
  }
  // What the planner refuses is said where the answer stands; the question stays and is mended.
  await page.locator("#limits summary").click();
  await page.locator("#limits input").first().fill("banana");
  await page.locator("#refusal [role=alert]", { hasText: "banana" }).waitFor();
  await settled(page);
  assert.equal(stable(await page.locator(".headline").innerText()), stable(first), "the answer before stays below");
  assert.ok(await page.locator("#answer.stale").count() === 1 && await page.locator("#time table").isVisible(), "greyed");
  await page.locator("#limits input").first().fill("");
  assert.equal(stable(await answered(page)), stable(first));
  assert.equal(await page.locator("#refusal [role=alert], #answer.stale").count(), 0);
  await panel(page, "cluster", "button.link");  // panels work again
  await finish();
});

test("a link that cannot be answered says so in place of the answer", async () => {
  const { page, finish } = await open(chrome, `${kSmall}&set.tp=banana`);
  assert.match(await answered(page), /banana/);
  assert.equal(await page.locator(".headline [role=alert]").count(), 1);
  assert.deepEqual(await page.locator(".panel-nav a:visible").allInnerTexts(), ["Mine beside best"], "no links to what is not there");
  await finish();
});

test("every dimension can be limited, and what is searched then keeps to it", async () => {
  const { page, finish } = await open(chrome, kPipelined);
  await settled(page);
  await page.locator("#limits summary").click();
  const { spawnSync } = await import("node:child_process");
  const keys = await page.locator("#limits .field code").allInnerTexts();
  assert.ok(keys.length >= 25 && new Set(keys).size === keys.length, keys.join(", "));
  const docs = (await import("node:fs")).readFileSync(new URL("../../docs/planning.md", import.meta.url), "utf8");
  const limited = [...docs.matchAll(/^\| `(\w+)`.*\| (?:range or list|list|0 or 1) \|$/gm)].map((match) => match[1]);
  assert.ok(limited.length > 15);
  assert.deepEqual(limited.filter((key) => !keys.includes(key)), [], "dimensions of docs/planning.md that the page does not have");
  const values = { zero: "1", recompute: "none", offload: "none", zero_outer: "0", shard_in_node: "0", schedule: "interleaved", sp: "1", cp_comm: "p2p", cp_inner: "1",
    defer_head: "0", any_rounds: "0", dp_inner: "1..64", pitch: "0", all_devices: "1", uneven_batch: "0", uniform: "1", even_cuts: "1", pp: "2", vpp: "2..", dp: "1..64", etp: "1..8" };
  for (const [i, key] of keys.entries()) {
    const control = page.locator("#limits input, #limits select").nth(i);
    if (await control.evaluate((element) => element.tagName) === "SELECT") await control.selectOption(values[key]);
    else await control.fill(values[key] ?? "1..16");
  }
  const text = await answered(page);
  assert.match(text, /Proven/);
  assert.equal(await page.locator("#refusal [role=alert]").count(), 0);
  await page.waitForFunction(() => (location.hash.match(/set\./g) ?? []).length >= 25);
  const command = await panel(page, "exports", "pre").then((exports) => exports.locator("pre", { hasText: "nest plan --model" }).innerText());
  const nest = process.env.NEST ?? new URL("../../build/nest", import.meta.url).pathname;
  const said = spawnSync("/bin/sh", ["-c", command.replace(/^nest/, nest) + " --no-why"], { encoding: "utf8" });
  const step = await page.locator(".headline .figures dd").first().innerText();
  assert.notEqual(step, "7.31 s", "limits matter");
  assert.ok(said.stdout.includes(`${step} ±`) && said.stdout.includes(" pp=2 "), `${step}, ${command}: ${said.stdout.slice(0, 300)}${said.stderr}`);
  await finish();
});

test("drop a model, a cluster, a topology; paste a launch line", async () => {
  const { page, finish } = await open(chrome, kSmall);
  await settled(page);
  const drop = (name, text) => dropped(page, [[name, text]]);
  await drop("config.json", JSON.stringify({ model_type: "llama", hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16,
    num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128256, max_position_embeddings: 4096, tie_word_embeddings: true }));
  assert.match(await answered(page), /parameters/);
  assert.equal(await page.locator("aside select").first().inputValue(), "\u0000own");
  await drop("mine.yaml", "name: mine\ndevice: h100\nlevels:\n  - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}\n" +
    "  - {name: rack, group: 2, bandwidth: 50GB/s, latency: 8us}\n");
  assert.match(await answered(page), /cluster mine/);
  await drop("topology.conf", "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=spine Switches=leaf[1-2]\n");
  const group = page.getByRole("group", { name: "import of a cluster" });
  await group.waitFor();
  await group.locator("[role=status]", { hasText: "does not say all" }).waitFor();
  assert.ok(await group.locator("input").count() >= 4);
  await group.getByRole("button", { name: "Read it" }).click();
  await group.waitFor({ state: "detached" });
  assert.match(await answered(page), /on 32 × h100/);
  // What nvidia-smi prints, pasted where the page asks for it.
  await page.getByRole("button", { name: "paste" }).nth(1).click();
  await page.getByLabel("cluster, pasted").fill("\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n" +
    [0, 1, 2, 3].map((i) => `GPU${i}\t${[0, 1, 2, 3].map((k) => (k === i ? " X " : "NV18")).join("\t")}\t0-47`).join("\n") + "\n");
  assert.match(await page.locator(".headline", { hasText: "on 4 × h100" }).innerText(), /Proven/);
  const { readFileSync } = await import("node:fs");
  await drop("graph.json", readFileSync(new URL("../../tests/fuzz/corpus/graph/decoder.json", import.meta.url), "utf8"));
  await page.locator("aside select").first().locator("option", { hasText: "yours: graph.json" }).waitFor({ state: "attached" });
  assert.match(await answered(page), /on 4 × h100/);
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.setData("text/plain", "tp=2 sp pp=2 mbs=1");
    document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
  });
  await page.locator("#mine", { hasText: "one step" }).waitFor();
  await finish();
});

test("files are dropped together: a model with its cluster, and what two tools say of one cluster", async () => {
  const { page, finish } = await open(chrome, kSmall);
  await settled(page);
  const drop = (files) => dropped(page, files);
  const config = JSON.stringify({ model_type: "llama", hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16, num_attention_heads: 32, num_key_value_heads: 8,
    vocab_size: 128256, max_position_embeddings: 4096 });
  await drop([["config.json", config], ["mine.yaml", "name: mine\ndevice: h100\nlevels:\n  - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}\n"]]);
  await page.locator(".headline h1", { hasText: "on 8 × h100" }).waitFor();
  assert.equal(await page.locator("aside select").first().inputValue(), "\u0000own");
  const inside = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n" + [0, 1, 2, 3].map((i) => `GPU${i}\t${[0, 1, 2, 3].map((k) => (k === i ? " X " : "NV18")).join("\t")}\t0-47`).join("\n") + "\n";
  await drop([["topology.conf", "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=spine Switches=leaf[1-2]\n"], ["nvidia-smi.txt", inside]]);
  const group = page.getByRole("group", { name: "import of a cluster" });
  await group.locator("[role=status]", { hasText: "does not say all" }).waitFor();
  assert.doesNotMatch(await group.innerText(), /devices of one node/, "nvidia-smi says how many");
  await group.getByRole("button", { name: "Read it" }).click();
  await page.locator(".headline h1", { hasText: "on 16 ×" }).waitFor();
  // One of them that nobody understands: nothing of the others is taken.
  await drop([["config.json", config], ["notes.txt", "hello"]]);
  await page.locator("#notices [role=alert]", { hasText: "notes.txt" }).waitFor();
  await finish();
});

test("a hostile configuration injects nothing", async () => {
  const evil = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>";
  const config = { model_type: "llama", _name_or_path: evil, nest: { description: evil }, hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16,
    num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128256, max_position_embeddings: 4096 };
  const cluster = { name: evil, device: "h100", levels: [{ name: evil, group: 8, bandwidth: "450GB/s", latency: "3us" }, { name: evil, group: 2, bandwidth: "50GB/s", latency: "8us" }] };
  const fragment = `v=1&model=${encodeURIComponent(evil)}&model.text=${encodeURIComponent(JSON.stringify(config))}` +
    `&cluster=${encodeURIComponent(evil)}&cluster.text=${encodeURIComponent(JSON.stringify(cluster))}&batch=64&mine=${encodeURIComponent(evil)}&${encodeURIComponent(evil)}=1`;
  const { page, finish } = await open(chrome, fragment);
  await settled(page);
  for (const id of ["cluster", "mine", "exports", "sensitivity"]) {
    await page.evaluate((name) => document.getElementById(name).scrollIntoView(), id);
    await page.waitForTimeout(400);
  }
  await page.click("#picture");
  await page.waitForTimeout(300);
  assert.doesNotMatch(await page.title(), /^hacked/);
  assert.equal(await page.evaluate(() => document.querySelectorAll("main img, aside img, main script, aside script, dialog img").length), 0);
  await finish();
});
