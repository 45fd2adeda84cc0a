// The planner's module: inside the page, or beside it where the page is hosted as separate files.

import workerSource from "nest:worker";
import type { WorkerLike } from "./engine";

async function compile(): Promise<WebAssembly.Module> {
  const inside = document.getElementById("wasm")?.textContent;
  if (!inside) return WebAssembly.compileStreaming(fetch("nest.wasm"));
  const text = atob(inside.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(unpacked).arrayBuffer());
}

// Workers can be made at once: they keep questions until the module has come.
export function workers(failed: (message: string) => void): () => WorkerLike {
  const url = URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" }));
  const module = compile();
  module.catch((error: unknown) => failed(`the planner could not be loaded: ${String(error)}`));
  return () => new LateWorker(url, module);
}

class LateWorker implements WorkerLike {
  onmessage: ((event: MessageEvent) => void) | null = null;
  onerror: ((event: ErrorEvent) => void) | null = null;
  private readonly worker: Worker;
  private readonly loaded: Promise<void>;

  constructor(url: string, module: Promise<WebAssembly.Module>) {
    this.worker = new Worker(url);
    this.worker.onmessage = (event) => this.onmessage?.(event);
    this.worker.onerror = (event) => this.onerror?.(event);
    this.loaded = module.then((made) => this.worker.postMessage({ module: made }));
    this.loaded.catch(() => undefined);  // said once, by workers()
  }

  postMessage(message: unknown): void {
    void this.loaded.then(() => this.worker.postMessage(message), () => undefined);
  }

  terminate(): void {
    this.worker.terminate();
  }
}
