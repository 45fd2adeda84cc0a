// Drawing on canvases: sharp on every screen, with a text for those who do not see it.

import { h } from "./dom";

// Letters grow with the page's: on a wall they are larger.
export function scaleOfType(): number {
  return parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
}

export class Drawing {
  readonly element: HTMLCanvasElement;
  private last: (() => void) | null = null;

  constructor(label: string, hover?: (x: number, y: number) => string | null) {
    this.element = h("canvas", { role: "img", "aria-label": label });
    if (hover) {
      this.element.addEventListener("pointermove", (event) => {
        const box = this.element.getBoundingClientRect();
        const text = hover(event.clientX - box.left, event.clientY - box.top);
        if (text) this.element.setAttribute("data-tip", text);
        else this.element.removeAttribute("data-tip");
        // The explanation follows the pointer from one part to the next.
        const tip = document.getElementById("tip");
        if (!tip) return;
        tip.hidden = !text;
        if (!text) return;
        tip.textContent = text;
        tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
        tip.style.top = `${event.clientY + 16}px`;
      });
      this.element.addEventListener("pointerleave", () => {
        const tip = document.getElementById("tip");
        if (tip) tip.hidden = true;
      });
    }
    let width = 0;
    new ResizeObserver(() => {
      if (this.element.clientWidth === width) return;
      width = this.element.clientWidth;
      this.last?.();
    }).observe(this.element);
  }

  // Draws now, and again whenever the width changes. `draw` gets a context in CSS pixels.
  draw(heightOf: (width: number) => number, draw: (context: CanvasRenderingContext2D, width: number, height: number) => void): void {
    this.last = () => {
      const width = this.element.clientWidth;
      if (width === 0) return;
      const height = heightOf(width);
      const dense = devicePixelRatio || 1;
      this.element.style.height = `${height}px`;
      this.element.width = Math.round(width * dense);
      this.element.height = Math.round(height * dense);
      const context = this.element.getContext("2d");
      if (!context) return;
      context.scale(dense, dense);
      context.font = `${11 * scaleOfType()}px system-ui, sans-serif`;
      draw(context, width, height);
    };
    this.last();
  }

  redraw(): void {
    this.last?.();
  }

  label(text: string): void {
    this.element.setAttribute("aria-label", text);
  }
}
