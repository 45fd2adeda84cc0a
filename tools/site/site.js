// The menu of small screens, light and dark, copying of commands, and the search: over kTexts (search.js), in the page.
"use strict";
const root = document.currentScript.dataset.root;
const at = (id) => document.getElementById(id);

at("menu").addEventListener("click", () => {
  const shown = at("pages").classList.toggle("shown");
  at("menu").setAttribute("aria-expanded", String(shown));
});

at("theme").addEventListener("click", () => {
  const html = document.documentElement;
  const dark = html.dataset.theme ? html.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  html.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", html.dataset.theme); } catch (e) { /* private windows forget it */ }
});

// Of a console, what is typed stands out, and only that is copied.
for (const pre of document.querySelectorAll("pre")) {
  const code = pre.querySelector("code");
  if (!code) continue;
  const lines = code.textContent.split("\n");
  const typed = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
  if (typed.length) {
    code.replaceChildren(...lines.flatMap((line, i) => {
      const span = document.createElement("span");
      if (line.startsWith("$ ")) span.className = "typed";
      span.textContent = line + (i + 1 < lines.length ? "\n" : "");
      return [span];
    }));
  }
  const button = document.createElement("button");
  button.textContent = "copy";
  const text = typed.length ? typed.join("\n") : code.textContent;
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = "copied"; } catch (e) { button.textContent = "not allowed"; }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  pre.append(button);
}

const kMostFound = 12;
// Texts that have all words; headings count more, and earlier words too.
function search(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const [url, page, heading, text] of kTexts) {
    const near = `${page} ${heading}`.toLowerCase(), all = `${near} ${text}`.toLowerCase();
    if (!words.every((word) => all.includes(word))) continue;
    const score = words.reduce((sum, word) => sum + (near.includes(word) ? 4 : 0) + (text.toLowerCase().includes(word) ? 1 : 0), 0);
    found.push({ url, page, heading, text, score });
  }
  found.sort((a, b) => b.score - a.score);
  const seen = new Set();
  return found.filter((hit) => !seen.has(hit.url) && seen.add(hit.url)).slice(0, kMostFound);
}

function marked(text, words) {
  const parts = document.createDocumentFragment();
  let rest = text;
  while (rest) {
    const places = words.map((word) => [rest.toLowerCase().indexOf(word), word.length]).filter(([i]) => i >= 0);
    if (!places.length) break;
    const [i, length] = places.sort((a, b) => a[0] - b[0])[0];
    const mark = document.createElement("mark");
    mark.textContent = rest.slice(i, i + length);
    parts.append(rest.slice(0, i), mark);
    rest = rest.slice(i + length);
  }
  parts.append(rest);
  return parts;
}

at("search").addEventListener("input", () => {
  const query = at("search").value.trim();
  const list = at("found");
  list.replaceChildren();
  list.hidden = query.length < 2;
  if (list.hidden) return;
  const words = query.toLowerCase().split(/\s+/);
  const hits = search(query);
  for (const hit of hits) {
    const item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
    link.href = root + hit.url;
    link.append(hit.heading && hit.heading !== hit.page ? `${hit.page}: ${hit.heading}` : hit.page);
    const first = Math.max(0, hit.text.toLowerCase().indexOf(words[0]) - 40);
    small.append(marked((first ? "… " : "") + hit.text.slice(first, first + 130), words));
    link.append(small);
    item.append(link);
    list.append(item);
  }
  if (!hits.length) list.append(Object.assign(document.createElement("li"), { textContent: "nothing found" }));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") at("found").hidden = true;
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); at("search").focus(); }
});
document.addEventListener("click", (event) => { if (!event.target.closest(".search")) at("found").hidden = true; });
