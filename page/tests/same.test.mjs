// The browser and the program say the same, to the last digit, whether or not plans on the way are told, and these are bounded
// by what they say; and how long the browser takes for it.
// Needs the program: NEST=build/nest (the default). NEST_PAGE_QUESTIONS: how many, 200.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { browser, page_file } from "./browser.mjs";

const folder = join(dirname(page_file), "hosted");
const nest = process.env.NEST ?? join(dirname(dirname(page_file)), "nest");
const wanted = Number(process.env.NEST_PAGE_QUESTIONS ?? 200);
let chrome;
before(async () => {
  chrome = await browser();
});
after(() => chrome?.close());

// A fixed walk over models, clusters, sizes and limits.
function questions(count) {
  let seed = 20260101;
  const next = (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
  const pick = (list) => list[next(list.length)];
  return Array.from({ length: count }, () => {
    const question = { model: pick(["llama3-8b", "llama3-70b", "llama2-13b", "qwen3-14b", "gemma2-9b", "mixtral-8x7b", "gpt3-35b", "llama3.2-3b", "gpt-oss-20b"]),
      cluster: pick(["dgx-h100", "dgx-a100", "dgx-b200", "gb200-nvl72", "h100-spine-leaf", "tpuv5p-torus"]), devices: 2 ** (3 + next(5)),
      global_batch: 2 ** (5 + next(4)) };
    if (next(3) === 0) question.set = [pick(["tp=1..4", "pp=1", "zero=1", "recompute=none", "sp=0"])];
    if (next(4) === 0) question.seq = pick([2048, 4096]);
    return question;
  });
}

function byProgram(question) {
  const words = ["plan", "--json", "--no-why", "--threads", "1", "--model", question.model, "--cluster", question.cluster, "--devices", String(question.devices),
    "--global-batch", String(question.global_batch), ...(question.seq ? ["--seq", String(question.seq)] : []), ...(question.set ?? []).flatMap((word) => ["--set", word])];
  return JSON.parse(spawnSync(nest, words, { encoding: "utf8", maxBuffer: 1 << 28 }).stdout);
}

// Without what a clock says, and what only the command tells.
function timeless(answer) {
  if (answer.error) return { error: answer.error.message.replace(/^--/, "").replace(/global-batch/g, "global_batch") };
  const { search, nearest_runs: _runs, why_not: _why, ...rest } = answer;
  if (!search) return rest;
  const { wall_s: _wall, ...record } = search;
  return { ...rest, search: record };
}

const kMixture = { model: "deepseek-v3", cluster: "dgx-h100", devices: 256, global_batch: 4096, seq: 4096 };

// Plans on the way fit, get better, and nothing is faster than what they say that nothing is.
function assertOnTheWay(plans, answer) {
  if (!answer.search) return assert.deepEqual(plans, [], "plans on the way to no plan");
  const best = answer.search.fastest_s ?? answer.prediction.iteration_s;
  let last = Infinity;
  for (const plan of plans) {
    assert.ok(plan.evaluation.fits);
    assert.deepEqual([plan.schema, plan.run.global_batch], [answer.schema, answer.run.global_batch]);
    if (plan.search.optimal || plan.search.execution) continue;
    assert.ok(plan.prediction.iteration_s <= last, "the next one is no slower");
    last = plan.prediction.iteration_s;
    if (answer.search.optimal) assert.ok(plan.search.lower_bound_s <= best * (1 + 1e-9), `${plan.search.lower_bound_s} bounds ${best}`);
  }
  return undefined;
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

test(`${wanted} questions have the same answers in the browser and by the program`, async (t) => {
  if (!existsSync(nest)) return t.skip(`${nest} is missing: make build`);
  const page = await chrome.newPage();
  await page.goto("about:blank");
  await page.addScriptTag({ content: readFileSync(join(dirname(folder), "nest.js"), "utf8") });
  await page.evaluate(async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    globalThis.nest = await createNest({ wasmBinary: bytes });
  }, readFileSync(join(folder, "nest.wasm")).toString("base64"));
  const ratios = [], dense = [];
  let all_told = 0;
  for (const question of [...questions(wanted), kMixture]) {
    const { answer, took, told } = await page.evaluate((text) => {
      const begin = performance.now();
      const told = [];
      globalThis.nest.told = (plan) => told.push({ plan, at: performance.now() - begin });
      return { answer: globalThis.nest.call(text), took: performance.now() - begin, told };
    }, JSON.stringify({ tool: "plan", arguments: { ...question, why: false }, partial: true }));
    const here = JSON.parse(answer), there = byProgram(question);
    assert.deepEqual(timeless(here), timeless(there), JSON.stringify(question));
    assertOnTheWay(told.map(({ plan }) => JSON.parse(plan)), here);
    all_told += told.length;
    if (question === kMixture) {
      console.log(`  DeepSeek-V3 on 256 devices: the first of ${told.length} plans on the way after ${told[0].at.toFixed(0)} ms, the answer after ${took.toFixed(0)} ms`);
    }
    if (here.search && there.search) {
      ratios.push(here.search.wall_s / there.search.wall_s);
      if (here.strategy.ep === 1) dense.push(took);
    }
  }
  assert.ok(all_told > wanted, `${all_told} plans on the way`);
  console.log(`  ${wanted} questions, ${ratios.length} plans: the same. Browser over program on one thread, of the search's own time: median ` +
    `${median(ratios).toFixed(2)}; dense models answered in ${median(dense).toFixed(0)} ms in the median.`);
  return undefined;
});
