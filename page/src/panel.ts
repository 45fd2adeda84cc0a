// A panel shows one side of the answer. What needs the planner again is asked when the panel is on the screen.

import { h, put } from "./dom";
import type { Manner } from "./engine";
import type { Change } from "./question";
import type { Question } from "./state";
import type { Answer, Json } from "./types";

export interface Context {
  question: Question;   // that was answered
  answer: Answer;
  partial: boolean;     // a plan on the way: the planner is at work and is asked nothing else
  ask(tool: string, args: Record<string, Json>, manner?: Manner): Promise<unknown>;  // ends with Cancelled when the question changes
  change: Change;
  isCurrent(): boolean;
}

export abstract class Panel {
  readonly element: HTMLElement;
  protected readonly body = h("div", {});
  protected readonly lead = h("p", { class: "lead" });
  protected context: Context | null = null;  // what is shown
  protected setQuestion: Change = () => undefined;  // of the question, before something is shown too
  private waiting: Context | null = null;
  private visible = false;

  // `eager`: asks nothing, and is drawn at once, of plans on the way too.
  constructor(readonly id: string, readonly title: string, private readonly eager: boolean, wide = false) {
    this.element = h("section", { class: wide ? "panel wide" : "panel", id, tabindex: "-1", "aria-labelledby": `${id}-title` },
      h("h2", { id: `${id}-title` }, title), this.lead, this.body);
    new IntersectionObserver((entries) => {
      this.visible = entries.some((entry) => entry.isIntersecting);
      this.run();
    }, { rootMargin: "150px" }).observe(this.element);
  }

  update(context: Context): void {
    this.element.classList.toggle("old", context.partial && !this.eager);
    if (context.partial && !this.eager) return;
    this.setQuestion = context.change;
    this.waiting = context;
    if (!this.applies(context)) {
      this.element.hidden = true;
      this.waiting = null;
      return;
    }
    this.element.hidden = false;
    this.run();
  }

  protected abstract show(context: Context): Promise<void> | void;
  protected applies(_context: Context): boolean {
    return true;
  }

  // The question changed in what the planner is not asked about: axes, prices, texts of one's own.
  retouch(question: Question): void {
    if (this.context) this.context = { ...this.context, question };
    if (this.waiting) this.waiting = { ...this.waiting, question };
  }

  // Called when the colours change: canvases draw again.
  restyle(): void {}

  protected say(text: string): void {
    put(this.lead, text);
  }

  private run(): void {
    const context = this.waiting;
    if (!context || (!this.eager && !this.visible)) return;
    this.waiting = null;
    this.context = context;
    void (async () => {
      try {
        await this.show(context);
      } catch (error) {
        if (context.isCurrent()) put(this.body, h("p", { class: "message" }, String((error as Error).message ?? error)));
      }
    })();
  }
}
