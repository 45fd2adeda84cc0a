// One planner on a thread of its own. The page sends the compiled module once, then questions; answers go back in turn.

interface NestModule {
  call(question: string): string;
}
declare function createNest(options: object): Promise<NestModule>;

let planner: Promise<NestModule> | null = null;

function load(module: WebAssembly.Module): Promise<NestModule> {
  return createNest({
    instantiateWasm(imports: WebAssembly.Imports, done: (instance: WebAssembly.Instance) => void): object {
      void WebAssembly.instantiate(module, imports).then(done);
      return {};
    },
  });
}

self.onmessage = async (event: MessageEvent) => {
  const message = event.data as { module?: WebAssembly.Module; id?: number; question?: string };
  if (message.module) {
    planner = load(message.module);
    await planner;
    self.postMessage({ ready: true });
    return;
  }
  let answer: string;
  try {
    const nest = await planner;
    answer = nest?.call(message.question ?? "") ?? "";
  } catch (error) {
    // The planner ran out of memory or has a mistake: the page is told, and takes another worker.
    self.postMessage({ id: message.id, broken: String(error) });
    return;
  }
  self.postMessage({ id: message.id, answer });
};
