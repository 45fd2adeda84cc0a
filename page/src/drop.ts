// Dropping, pasting and choosing files.

import { h, put } from "./dom";

export interface Given {
  name: string;
  text: string;
}
export type Take = (given: Given[]) => void;

export function dropZone(kind: "model" | "cluster", take: Take, complain: (message: string) => void): HTMLElement {
  const file = h("input", { type: "file", multiple: true, class: "offscreen", tabindex: "-1", "aria-hidden": "true" });
  const area = h("textarea", { "aria-label": kind === "model" ? "config.json or graph.json, pasted" : "cluster, pasted",
    placeholder: kind === "model" ? "paste a config.json" : "paste YAML, topology.conf or the output of nvidia-smi topo -m",
    hidden: true });
  const zone = h("div", { class: "drop" },
    kind === "model" ? "Drop a config.json or graph.json, " : "Drop a YAML, topology.conf or nvidia-smi output, ",
    h("button", { type: "button", on: { click: () => file.click() } }, "choose a file"), " or ",
    h("button", { type: "button", on: { click: () => {
      area.hidden = !area.hidden;
      if (!area.hidden) area.focus();
    } } }, "paste"), ".", file, area);
  file.addEventListener("change", () => {
    if (file.files?.length) void readFiles([...file.files], take, complain);
    file.value = "";
  });
  area.addEventListener("input", () => {
    if (area.value.trim() === "") return;
    const text = area.value;
    area.value = "";
    area.hidden = true;
    take([{ name: kind === "model" ? "pasted config.json" : "pasted cluster", text }]);
  });
  return zone;
}

// Several at once: a model with its cluster, or what different tools say of one cluster.
async function readFiles(files: File[], take: Take, complain: (message: string) => void): Promise<void> {
  const given: Given[] = [];
  for (const file of files) {
    try {
      given.push({ name: file.name, text: await file.text() });
    } catch {
      complain(`${file.name}: could not be read`);
      return;
    }
  }
  take(given);
}

// The whole page takes files; a paste that no field takes is looked at too.
export function listenEverywhere(take: Take, complain: (message: string) => void): void {
  const hot = (on: boolean): void => {
    for (const zone of document.querySelectorAll(".drop")) zone.classList.toggle("hot", on);
  };
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    hot(true);
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) hot(false);
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    hot(false);
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length > 0) void readFiles(files, take, complain);
    else if (event.dataTransfer) take([{ name: "dropped text", text: event.dataTransfer.getData("text/plain") }]);
  });
  document.addEventListener("paste", (event) => {
    const target = event.target;
    if (target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement) return;
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (text.trim().length > 8) take([{ name: "pasted text", text }]);
  });
}

// Messages above the answer: each can be closed, none is lost by the next answer.
export class Notices {
  readonly element = h("div", { id: "notices" });

  say(text: string, kind: "note" | "error" = "error"): void {
    const box = h("div", { class: kind === "note" ? "message note" : "message", role: kind === "note" ? "status" : "alert" },
      text, " ", h("button", { type: "button", class: "small", "aria-label": "close this message", on: { click: () => box.remove() } }, "Close"));
    put(this.element, box);
  }

  clear(): void {
    put(this.element);
  }
}
