// Debian's Chromium without a window, and what every test asks of it: no request to any host, no error of a script.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const page_file = process.env.NEST_PAGE ?? join(root, "build/page/index.html");
export const shots = process.env.NEST_PAGE_SHOTS;  // a folder for pictures to look at
const program = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);

export async function browser() {
  assert.ok(program, "no Chromium here: apt-get install chromium");
  assert.ok(existsSync(page_file), `${page_file} is missing: make page`);
  return chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--js-flags=--expose-gc"] });
}

// A page with its complaints; `finish` fails the test where there is one.
// `first` runs in the page before its own script.
export async function open(chrome, fragment = "", options = {}, first = null) {
  const context = await chrome.newContext({ viewport: { width: 1440, height: 1000 }, ...options });
  if (first) await context.addInitScript(first);
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`script: ${error.message}`));
  page.on("console", (message) => complaints.push(`console: ${message.text()}`));
  page.on("request", (request) => {
    if (/^(https?|wss?|ftp):/.test(request.url())) complaints.push(`it asks for ${request.url()}`);
  });
  await page.goto(pathToFileURL(page_file).href + (fragment ? `#${fragment}` : ""));
  return {
    page,
    async finish() {
      await context.close();
      assert.deepEqual(complaints, []);
    },
  };
}

// Until the answer to the question on the screen is there.
export async function settled(page, timeout = 60_000) {
  await page.waitForFunction(() => document.getElementById("answer")?.getAttribute("aria-busy") === "false", null, { timeout });
}

export async function answered(page, timeout = 60_000) {
  await settled(page, timeout);
  return page.locator(".headline").innerText();
}

// Scrolls to a panel and waits for what a selector finds in it.
export async function panel(page, id, selector, timeout = 60_000) {
  await page.locator(`#${id}`).scrollIntoViewIfNeeded();
  await page.locator(`#${id} ${selector}`).first().waitFor({ timeout });
  return page.locator(`#${id}`);
}

// Without the times that the search took.
export const stable = (text) => text.replace(/opened, [^.;]*[.;]/g, "opened;").replace(/\d+(\.\d+)? (µs|ms|s)\.(?= Executed)/g, "");

// Files [name, text] that somebody lets fall on the page, all at once.
export function dropped(page, files) {
  return page.evaluate((given) => {
    const data = new DataTransfer();
    for (const [name, text] of given) data.items.add(new File([text], name));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  }, files);
}
