// The page in a real browser: every panel, links, looks, speed. Ways in and ways to fail are in input.test.mjs.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { answered, browser, open, panel, settled, shots, stable } from "./browser.mjs";

const kSmall = "v=1&model=llama3-8b&cluster=dgx-h100&devices=16&batch=64";
const kMixture = "v=1&model=deepseek-v3&cluster=dgx-h100&devices=256&batch=4096&seq=4096";
const kPipelined = "v=1&model=llama3-70b&cluster=dgx-h100&devices=128&batch=128";
let chrome;
before(async () => {
  chrome = await browser();
});
after(() => chrome?.close());

test("loads from disk and answers within two seconds", async () => {
  const begin = performance.now();
  const { page, finish } = await open(chrome);
  await page.locator("form").waitFor();
  const loaded = performance.now() - begin;
  const text = await answered(page);
  console.log(`  usable after ${loaded.toFixed(0)} ms, first answer after ${(performance.now() - begin).toFixed(0)} ms`);
  assert.ok(loaded < 2000, `${loaded} ms`);
  assert.match(text, /Llama 3 70B on 128 × h100/);
  assert.match(text, /7\.31 s/);
  assert.match(text, /Proven/);
  assert.match(text, /± \d+ %/);
  await finish();
});

// What the page shows and says, whenever that changes.
function watch() {
  const seen = (globalThis.seen = []);
  new MutationObserver(() => {
    const text = (selector) => document.querySelector(selector)?.textContent ?? "";
    const now = { kicker: text(".headline .kicker"), title: text(".headline h1"), verdict: text(".headline .verdict"), step: text(".headline .figures dd"),
      strategy: text(".headline .strategy"), said: text("body > [role=status]"), busy: document.getElementById("answer")?.getAttribute("aria-busy"),
      greyed: document.getElementById("answer")?.classList.contains("stale") };
    const last = seen.at(-1);
    if (!last || Object.keys(now).some((key) => now[key] !== last[key])) seen.push({ ...now, at: performance.now() });
  }).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-busy", "class"] });
}

test("a large mixture: a plan with its bound at once, better ones, then the proven one; it is said twice", async () => {
  const { page, finish } = await open(chrome, kMixture, {}, watch);
  await page.locator(".verdict.early").first().waitFor();
  assert.match(await page.locator(".headline").innerText(), /still searching/i);
  assert.ok(await page.locator("#time table tbody tr").count() > 3, "where its time goes is shown");
  assert.equal(await page.locator("#map.old").count(), 1, "what would ask more waits");
  if (shots) {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.screenshot({ path: join(shots, `partial-${scheme}.png`) });
    }
  }
  assert.match(await answered(page, 120_000), /Proven|Executed/);
  const seen = await page.evaluate(() => globalThis.seen);
  const early = seen.filter((one) => /still searching/.test(one.kicker)), final = seen.at(-1);
  console.log(`  first plan after ${early[0].at.toFixed(0)} ms (${early[0].verdict.slice(0, 60)}), ${early.length} changes on the way, the answer after ${final.at.toFixed(0)} ms`);
  assert.ok(early.every((one) => one.busy === "true" && !one.greyed), "a plan on the way is not greyed, and the page is at work");
  assert.equal(final.busy, "false");
  assert.equal(final.kicker, "training plan");
  assert.ok(seen.findIndex((one) => one.kicker === "training plan" && one.strategy !== "") > seen.indexOf(early.at(-1)), "then the answer");
  assert.match(early[0].verdict, /at most [\d.]+ % from the best|no plan is faster than|by the formula/);
  const said = [...new Set(seen.map((one) => one.said))].filter(Boolean);
  assert.equal(said.length, 2, said.join(" | "));
  assert.match(said[0], /^A plan so far: .* Still searching\.$/);
  assert.ok(said[1].includes(final.strategy));
  assert.equal(await page.locator("#map.old").count(), 0);
  await finish();
});

test("a newer question ends a long one, of which nothing is heard any more", async () => {
  const { page, finish } = await open(chrome, kMixture, {}, watch);
  await page.locator(".verdict.early").first().waitFor();
  await page.locator("aside select").first().selectOption("llama3-8b");
  assert.match(await answered(page), /Llama 3 8B/);
  await page.waitForTimeout(600);
  const seen = await page.evaluate(() => globalThis.seen);
  const changed = seen.findIndex((one) => /8B/.test(one.title));
  assert.ok(changed > 0 && seen.slice(changed).every((one) => /8B/.test(one.title)), "nothing of the older question comes after");
  await finish();
});

test("where the time goes, and memory whose line is dragged", async () => {
  const { page, finish } = await open(chrome, kSmall);
  await settled(page);
  assert.ok(await page.locator("#time table tbody tr").count() > 3);
  const before_drag = await page.locator(".headline").innerText();
  const line = page.locator("#memory .hbm");
  await line.scrollIntoViewIfNeeded();
  const box = await line.locator("circle").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  for (let step = 1; step <= 12; ++step) await page.mouse.move(box.x - step * 12, box.y + 6, { steps: 2 });
  await page.mouse.up();
  await settled(page);
  const after_drag = await page.locator(".headline").innerText();
  assert.notEqual(before_drag, after_drag);
  await page.waitForFunction(() => /hbm=[\d.]+GiB/.test(location.hash));
  // The keyboard moves it, too; the answer says the same memory as the line.
  await line.focus();
  await page.keyboard.press("ArrowLeft");
  await settled(page);
  const now = await line.getAttribute("aria-valuenow");
  assert.ok((await page.locator(".headline").innerText()).includes(`of ${Number(now).toFixed(1)} GiB`));
  await finish();
});

test("the pipeline over time, two schedules side by side, a trace", async () => {
  const { page, finish } = await open(chrome, kPipelined);
  await settled(page);
  const box = await panel(page, "pipeline", "h3");
  await page.selectOption("#pipeline select >> nth=1", "1f1b");
  await box.locator("h3").nth(1).getByText("1f1b").waitFor();
  const [saved] = await Promise.all([page.waitForEvent("download"), page.click("#trace")]);
  const { readFileSync } = await import("node:fs");
  const trace = JSON.parse(readFileSync(await saved.path(), "utf8"));
  assert.ok(trace.traceEvents.some((event) => event.ph === "X" && event.dur > 0));
  assert.ok(new Set(trace.traceEvents.map((event) => event.pid)).size >= 2, "both schedules are in the trace");
  await finish();
});

test("a node fails and comes back; a link is changed", async () => {
  const { page, finish } = await open(chrome, kPipelined);
  const first = await answered(page);
  await panel(page, "cluster", "button.link");
  await page.fill("#cluster input[type=number]", "3");
  await page.click("#fail-node");
  await page.locator("aside .chip", { hasText: "node 3" }).waitFor();
  const without = await answered(page);
  assert.match(without, /on 120 × h100/);
  await page.locator("aside .chip button").click();
  assert.equal(stable(await answered(page)), stable(first));
  // A click on the drawing fails the node under the pointer.
  await panel(page, "cluster", "button.link");
  await page.locator("#cluster canvas").click({ position: { x: 20, y: 20 } });
  await page.locator("aside .chip", { hasText: "node 0" }).waitFor();
  await page.locator("aside .chip button").click();
  await settled(page);
  await panel(page, "cluster", "button.link");
  await page.locator("#cluster button.link").nth(1).click();
  await page.locator("#cluster .popover input").fill("2");
  await settled(page);
  await page.waitForFunction(() => /l1\.bandwidth=/.test(location.hash));
  await finish();
});

test("the map fills, and a cell is taken", async () => {
  const { page, finish } = await open(chrome, kSmall);
  await settled(page);
  await panel(page, "map", "button.best");
  // The plan itself is the best of its cell, from the start.
  const step = await page.locator(".headline .figures dd").first().innerText();
  assert.ok((await page.locator("#map td button.best").innerText()).startsWith(step));
  assert.equal(await page.locator("#map td button.best.open").count(), 0);
  await page.waitForFunction(() => document.querySelectorAll("#map td button:not(.wait)").length > 8, null, { timeout: 120_000 });
  await page.locator("#map td button.best").click();
  await page.waitForFunction(() => /set\.tp=/.test(location.hash));
  await settled(page);
  await page.selectOption("#map select", "devices,batch");
  await page.locator("#map th", { hasText: "batch" }).first().waitFor();
  await finish();
});

test("no cell of the map is better than the proven plan, though the host could take what does not fit", async () => {
  const { page, finish } = await open(chrome, "v=1&model=llama3-70b&cluster=dgx-h100&devices=16&batch=64");
  await settled(page);
  await panel(page, "map", "button.best");
  await page.locator("#map p", { hasText: "25 of 25 cells are proven" }).waitFor({ timeout: 120_000 });
  assert.equal((await page.locator("#map td button.best").innerText()).split("\n")[0], await page.locator(".headline .figures dd").first().innerText());
  assert.ok((await page.locator("#map td button.none").allInnerTexts()).filter((text) => /^−[\d.]+\sGiB$/.test(text)).length >= 3, "GiB that are missing");
  await page.locator("#more summary").click();
  await page.getByLabel("State on the host").selectOption("any");
  await page.locator(".headline .chip", { hasText: "on the host" }).first().waitFor({ timeout: 60_000 });
  assert.match(await page.locator(".headline .strategy").innerText(), /offload=/);
  await finish();
});

test("mine beside best: a strategy, then a launch line", async () => {
  const { page, finish } = await open(chrome, kPipelined);
  await settled(page);
  await page.fill("#mine textarea", "tp=8 sp pp=4 mbs=1");  // at once: before the panel has come into view and is drawn
  await page.locator("#mine", { hasText: "one step" }).waitFor();
  await page.locator("#mine h3", { hasText: "One change at a time" }).waitFor({ timeout: 60_000 });
  const changes = await page.locator("#mine ol li").allInnerTexts();
  assert.ok(changes.every((text) => /−[\d.]+ %/.test(text)) && /change this first/.test(changes[0]), changes.join(" | "));
  assert.match(await page.locator("#mine .fix").allInnerTexts().then((all) => all.join(" | ")), /change vpp=\d+: .* ms → .*; the whole step −/);
  await page.fill("#mine textarea", "torchrun --nnodes 16 --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 8 " +
    "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 128 --seq-length 8192 --sequence-parallel");
  await page.locator("#mine h3", { hasText: "What to change" }).waitFor({ timeout: 120_000 });
  assert.match(await page.locator("#mine .fix").allInnerTexts().then((all) => all.join(" | ")), /change --[\w-]+.*: a step takes .* less/);
  await finish();
});

test("Pareto, sensitivity, exports, the same by other ways", async () => {
  const { page, finish } = await open(chrome, kSmall);
  await settled(page);
  await panel(page, "pareto", "circle");
  await page.waitForFunction(() => document.querySelectorAll("#pareto circle").length >= 3, null, { timeout: 120_000 });
  await panel(page, "sensitivity", "tr");
  await page.waitForFunction(() => [...document.querySelectorAll("#sensitivity td.n")].every((cell) => cell.textContent !== "…"), null, { timeout: 120_000 });
  const gains = await page.locator("#sensitivity td.n").allInnerTexts();
  assert.match(await page.locator("#sensitivity").innerText(), /79\.2 GiB → 87\.12 GiB/);
  assert.equal(await page.locator("#pareto circle").count(), await page.locator("#pareto tbody tr").count());
  assert.ok(gains.length >= 5 && gains.every((gain) => /%$|not settled/.test(gain)) && gains.some((gain) => /^−/.test(gain)), gains.join(", "));
  await panel(page, "exports", "pre", 120_000);
  await page.locator("#exports [role=tabpanel] pre", { hasText: "--tensor-model-parallel-size" }).waitFor({ timeout: 120_000 });
  for (const [target, word] of [["torchtitan", "parallelism"], ["deepspeed", "zero_optimization"], ["sbatch", "#SBATCH"], ["plan", "nest.plan/3"]]) {
    await page.click(`#exports [data-target=${target}]`);
    await page.locator("#exports [role=tabpanel] pre", { hasText: word }).waitFor({ timeout: 120_000 });
  }
  await page.locator("#exports [role=tab][aria-selected=true]").focus();
  await page.keyboard.press("Home");
  await page.locator("#exports [role=tab][aria-selected=true]", { hasText: "Megatron" }).waitFor();
  await page.getByRole("button", { name: "Copy the command line" }).click();
  await page.getByRole("button", { name: "Copied the command line" }).waitFor();
  const text = await page.locator("#exports").innerText();
  assert.match(text, /nest plan --model llama3-8b --cluster dgx-h100 --devices 16 --global-batch 64/);
  assert.match(text, /nest\.plan\("llama3-8b", "dgx-h100", devices=16, global_batch=64\)/);
  await finish();
});

test("a link shows the same question; older ones say so; undo and redo", async () => {
  const { page, finish } = await open(chrome, kSmall);
  const first = await answered(page);
  await page.fill("aside input[type=number] >> nth=1", "128");
  await settled(page);
  await page.waitForFunction(() => /batch=128/.test(location.hash));
  const changed = await page.locator(".headline").innerText();
  const link = new URL(page.url()).hash.slice(1);
  const other = await open(chrome, link);
  assert.equal(stable(await answered(other.page)), stable(changed));
  await other.finish();
  await page.getByRole("button", { name: "Undo" }).click();
  assert.equal(stable(await answered(page)), stable(first));
  await page.getByRole("button", { name: "Redo" }).click();
  assert.equal(stable(await answered(page)), stable(changed));
  await finish();
  const old = await open(chrome, "model=llama3-8b&devices=8&shape=round");
  await old.page.locator("#notices", { hasText: "older version" }).waitFor();
  await settled(old.page);
  await old.finish();
});

test("why not otherwise is asked when it is opened", async () => {
  const { page, finish } = await open(chrome, kSmall);
  await settled(page);
  await page.locator("#why summary").click();
  await page.locator("#why td", { hasText: "tensor 2" }).waitFor();
  assert.ok(await page.locator("#why tbody tr").count() >= 3);
  assert.match(await page.locator("#why").innerText(), /\+3\.2 %/);
  await finish();
});

test("a hundred quick changes: no stale answer, no leak", async () => {
  const { page, finish } = await open(chrome, kSmall);
  await settled(page);
  const heap = () => page.evaluate(() => {
    globalThis.gc?.();
    return performance.memory.usedJSHeapSize;
  });
  const before_changes = await heap();
  const batch = page.locator("aside input[type=number]").nth(1);
  for (let i = 0; i < 100; ++i) await batch.fill(String(32 + 16 * (i % 7)));
  await batch.fill("96");
  await settled(page);
  assert.match(await page.locator(".headline").innerText(), /96 sequences/);
  await page.waitForTimeout(1000);
  assert.match(await page.locator(".headline").innerText(), /96 sequences/);
  const workers = page.workers().length;
  assert.ok(workers <= 3, `${workers} workers are alive`);
  const grown = (await heap()) - before_changes;
  assert.ok(grown < 60e6, `the heap has grown by ${(grown / 1e6).toFixed(0)} MB`);
  await finish();
});

test("a rack of which some devices are spares fails", async () => {
  const { page, finish } = await open(chrome, "v=1&model=llama3-8b&cluster=gb200-nvl72&devices=144&batch=288");
  await settled(page);
  await panel(page, "cluster", "button.link");
  await page.fill("#cluster input[type=number]", "1");
  await page.click("#fail-node");
  assert.match(await page.locator(".headline", { hasText: "on 72 × gb200" }).innerText(), /Proven/);
  await finish();
});

test("a torus: its links are changed, and what a tenth more of them buys", async () => {
  const { page, finish } = await open(chrome, "v=1&model=llama3-8b&cluster=tpuv5p-torus&devices=64&batch=128");
  await settled(page);
  await panel(page, "sensitivity", "tr");
  await page.locator("#sensitivity tr", { hasText: "90 GB/s → 99 GB/s" }).locator("td.n", { hasText: "%" }).waitFor();
  await panel(page, "cluster", "button.link");
  assert.equal(await page.locator("#fail-node").isVisible(), false, "a torus has no nodes that fail alone");
  await page.locator("#cluster button.link").first().click();
  await page.locator("#cluster .popover input").fill("5");
  await page.waitForFunction(() => /torus\.bandwidth=/.test(location.hash));
  await settled(page);
  await page.getByRole("group", { name: "Cluster" }).locator("summary").click();
  assert.match(await page.getByLabel("Bandwidth of the torus", { exact: true }).inputValue(), /^3[12][.\d]*GB\/s$/);
  await finish();
});

test("10,240 devices are drawn within a second", async () => {
  const { page, finish } = await open(chrome, "v=1&model=llama3-405b&cluster=dgx-h100&devices=10240&batch=2048");
  await answered(page, 120_000);
  await panel(page, "cluster", "button.link", 120_000);
  const took = await page.evaluate(() => {
    const canvas = document.querySelector("#cluster canvas");
    const begin = performance.now();
    document.getElementById("theme").click();  // every panel draws again
    canvas.getContext("2d").getImageData(0, 0, 1, 1);
    return performance.now() - begin;
  });
  console.log(`  all drawings again with 10,240 devices: ${took.toFixed(0)} ms`);
  assert.ok(took < 1000, `${took} ms`);
  if (shots) await page.screenshot({ path: join(shots, "devices.png") });
  await finish();
});

test("a picture to share, as PNG and SVG", async () => {
  const { page, finish } = await open(chrome, kSmall);
  await settled(page);
  await page.click("#picture");
  // The preview is the picture, not smaller letters in an empty frame.
  const size = await page.evaluate(() => {
    const card = document.querySelector("dialog svg"), title = card.querySelectorAll("text")[1];
    return { wide: card.getBoundingClientRect().width, tall: card.getBoundingClientRect().height, letters: title.getBoundingClientRect().height };
  });
  assert.ok(Math.abs(size.wide / size.tall - 1200 / 630) < 0.02 && size.letters > size.tall / 20, JSON.stringify(size));
  const { readFileSync } = await import("node:fs");
  const [svg] = await Promise.all([page.waitForEvent("download"), page.click("#save-svg")]);
  assert.match(readFileSync(await svg.path(), "utf8"), /^<svg/);
  const [png] = await Promise.all([page.waitForEvent("download"), page.click("#save-png")]);
  assert.equal(readFileSync(await png.path()).subarray(1, 4).toString(), "PNG");
  await finish();
});

test("light, dark, phone, wall: nothing sticks out, all text can be read, all controls have names", async () => {
  for (const [name, width, height, scheme] of [["light", 1440, 1000, "light"], ["dark", 1440, 1000, "dark"], ["phone", 390, 844, "light"],
    ["phone-dark", 390, 844, "dark"], ["wall", 3840, 2160, "dark"]]) {
    const { page, finish } = await open(chrome, kPipelined, { viewport: { width, height }, colorScheme: scheme, isMobile: width < 500, hasTouch: width < 500 });
    await settled(page);
    await page.setViewportSize({ width, height: 5200 });
    await page.locator("#exports [role=tabpanel] pre").waitFor({ timeout: 120_000 });
    assert.deepEqual(await page.evaluate(stickingOut), [], `${name}: reaches beyond the edge`);
    assert.deepEqual(await page.evaluate(lowContrast), [], `${name}: little contrast`);
    assert.deepEqual(await page.evaluate(nameless), [], `${name}: controls without a name`);
    if (shots) {
      await page.waitForTimeout(8000);
      await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
    }
    await finish();
  }
});

function stickingOut() {
  return [...document.querySelectorAll("body *")].filter((element) => !element.closest(".scroll, pre, svg, .skip, .offscreen, dialog, #tip, .progress") &&
    element.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map((element) => element.outerHTML.slice(0, 90)).slice(0, 3);
}

function nameless() {
  return [...document.querySelectorAll("button, input, select, textarea, [role=slider], a, svg:not([aria-hidden=true]), canvas")].filter((element) =>
    !element.closest("[hidden], dialog:not([open]), [aria-hidden=true]") && !(element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.length || element.title))
    .map((element) => element.outerHTML.slice(0, 90)).slice(0, 5);
}

function lowContrast() {
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const bad = new Set();
  for (const element of document.querySelectorAll("body *:not(svg *)")) {
    if (element.closest("#map, :disabled, select, .skip, noscript, script, style") || ![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    let under = element;
    while (under && rgb(getComputedStyle(under).backgroundColor)[3] === 0) under = under.parentElement;
    const style = getComputedStyle(element);
    const a = light(rgb(style.color)), b = light(rgb(getComputedStyle(under ?? document.body).backgroundColor));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) bad.add(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return [...bad].slice(0, 5);
}
