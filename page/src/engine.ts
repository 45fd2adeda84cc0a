// The planner behind the page: workers, and who waits for whom.
//
// Two lanes. `main` answers the question that is on the screen; `side` does everything that hangs on its answer
// (drawings, maps, exports), one after another. A newer question ends what either lane is doing by ending its worker;
// a spare that is already warm takes its place, so that nobody waits for a start.

import type { Json } from "./types";

export interface WorkerLike {
  postMessage(message: unknown): void;
  terminate(): void;
  onmessage: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
}

export class Cancelled extends Error {}

interface Job {
  question: string;
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

class Lane {
  private worker: WorkerLike | null = null;
  private queue: Job[] = [];
  private running: Job | null = null;
  private count = 0;

  constructor(private readonly pool: Pool) {}

  get busy(): boolean {
    return this.running !== null;
  }

  ask(tool: string, args: Record<string, Json>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.queue.push({ question: JSON.stringify({ tool, arguments: args }), resolve, reject });
      this.next();
    });
  }

  // Whatever waits or runs is given up; what runs takes its worker along.
  cancel(): void {
    const lost = this.queue.splice(0);
    if (this.running) {
      lost.unshift(this.running);
      this.running = null;
      this.worker?.terminate();
      this.worker = null;
      this.pool.keepSpare();
    }
    for (const job of lost) job.reject(new Cancelled());
  }

  private next(): void {
    if (this.running || this.queue.length === 0) return;
    const job = this.queue.shift() as Job;
    this.running = job;
    const id = ++this.count;
    this.worker ??= this.pool.take();
    const worker = this.worker;
    worker.onmessage = (event) => {
      const message = event.data as { id?: number; answer?: string; broken?: string };
      if (message.id !== id || this.running !== job) return;
      this.running = null;
      if (message.broken !== undefined) {
        this.drop(worker);
        job.reject(new Error(`the planner stopped: ${message.broken}`));
      } else {
        try {
          job.resolve(JSON.parse(message.answer ?? ""));
        } catch (error) {
          job.reject(error as Error);
        }
      }
      this.next();
    };
    worker.onerror = (event) => {
      if (this.running !== job) return;
      this.running = null;
      this.drop(worker);
      job.reject(new Error(event.message || "the planner could not be started"));
      this.next();
    };
    worker.postMessage({ id, question: job.question });
  }

  private drop(worker: WorkerLike): void {
    worker.terminate();
    this.worker = null;
    this.pool.keepSpare();
  }
}

class Pool {
  private spare: WorkerLike | null = null;
  made = 0;

  constructor(private readonly make: () => WorkerLike) {}

  take(): WorkerLike {
    const worker = this.spare ?? this.start();
    this.spare = null;
    return worker;
  }

  keepSpare(): void {
    this.spare ??= this.start();
  }

  private start(): WorkerLike {
    this.made += 1;
    return this.make();
  }
}

export class Engine {
  readonly main: Lane;
  readonly side: Lane;
  private readonly pool: Pool;

  constructor(make: () => WorkerLike) {
    this.pool = new Pool(make);
    this.main = new Lane(this.pool);
    this.side = new Lane(this.pool);
    this.pool.keepSpare();
  }
}
