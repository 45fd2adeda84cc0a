// One planner on a thread of its own. The page sends the compiled module once, then questions; answers go back in turn,
// before some of them plans that were found on the way.

interface NestModule {
  call(question: string): string;
  told?: (plan: string) => void;  // called in the middle of a call
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
    if (nest) nest.told = (partial) => self.postMessage({ id: message.id, partial });
    answer = nest?.call(message.question ?? "") ?? "";
  } catch (error) {
    // The planner ran out of memory or has a mistake: the page is told, and takes another worker.
    self.postMessage({ id: message.id, broken: String(error) });
    return;
  }
  self.postMessage({ id: message.id, answer });
};
