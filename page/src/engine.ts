// The planner behind the page: workers, and who waits for whom.
//
// Two lanes. `main` answers the question that is on the screen; `side` does everything that hangs on its answer
// (drawings, maps, exports), one after another. A newer question ends what either lane is doing by ending its worker;
// a spare that is already warm takes its place, so that nobody waits for a start. What somebody asks for goes before what
// the page asks of itself, and takes the worker from it.

import type { Json } from "./types";

export interface WorkerLike {
  postMessage(message: unknown): void;
  terminate(): void;
  onmessage: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
}

export class Cancelled extends Error {}

// In place of an answer that took too long: the last plan on the way, if there was one.
export class Unsettled {
  constructor(readonly plan: unknown) {}
}

export interface Manner {
  told?: (partial: unknown) => void;  // hears plans on the way; none after the answer, or once the question is given up
  later?: boolean;                    // the page asks it of itself: everything else goes first
  instead?: string;                   // of this kind only the last one is wanted
  most?: number;                      // seconds, after which Unsettled is the answer
}

interface Job extends Manner {
  question: string;
  timer?: ReturnType<typeof setTimeout>;
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

const kGrace = 150;  // ms in which what runs may still end by itself

class Lane {
  private worker: WorkerLike | null = null;
  private queue: Job[] = [];
  private running: Job | null = null;
  private count = 0;

  constructor(private readonly pool: Pool) {}

  get busy(): boolean {
    return this.running !== null;
  }

  ask(tool: string, args: Record<string, Json>, manner: Manner = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (manner.instead !== undefined) this.giveUp((job) => job.instead === manner.instead);
      const partial = manner.told !== undefined || manner.most !== undefined;
      const question = JSON.stringify({ tool, arguments: args, ...(partial ? { partial } : {}) });
      this.queue.push({ ...manner, question, resolve, reject });
      if (!manner.later) this.makeWay();
      this.next();
    });
  }

  cancel(): void {
    this.giveUp(() => true);
  }

  // Whatever of it waits or runs is given up; what runs takes its worker along.
  private giveUp(which: (job: Job) => boolean): void {
    const lost = this.queue.filter(which);
    this.queue = this.queue.filter((job) => !which(job));
    if (this.running && which(this.running)) lost.unshift(this.stop());
    for (const job of lost) job.reject(new Cancelled());
    this.next();
  }

  // What the page asked of itself is asked again when nothing else waits.
  private makeWay(): void {
    const job = this.running;
    if (!job?.later) return;
    setTimeout(() => {
      if (this.running !== job || this.queue.every((one) => one.later)) return;
      this.queue.unshift(this.stop());
      this.next();
    }, kGrace);
  }

  private stop(): Job {
    const job = this.running as Job;
    clearTimeout(job.timer);
    this.running = null;
    this.worker?.terminate();
    this.worker = null;
    this.pool.keepSpare();
    return job;
  }

  // The planner's own limit is not asked for: it would make sure of a plan first, which takes a part of it every time.
  private limit(job: Job, last: () => unknown): void {
    if (job.most === undefined) return;
    job.timer = setTimeout(() => {
      if (this.running !== job) return;
      this.stop().resolve(new Unsettled(last()));
      this.next();
    }, job.most * 1000);
  }

  private next(): void {
    if (this.running || this.queue.length === 0) return;
    const first = this.queue.findIndex((one) => !one.later);
    const job = this.queue.splice(Math.max(0, first), 1)[0] as Job;
    this.running = job;
    const id = ++this.count;
    this.worker ??= this.pool.take();
    const worker = this.worker;
    let last: unknown = null;
    this.limit(job, () => last);
    worker.onmessage = (event) => {
      const message = event.data as { id?: number; answer?: string; broken?: string; partial?: string };
      if (message.id !== id || this.running !== job) return;
      if (message.partial !== undefined) {
        last = JSON.parse(message.partial);
        job.told?.(last);
        return;
      }
      clearTimeout(job.timer);
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
      clearTimeout(job.timer);
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
