// Elements from data. Text always becomes a text node: nothing that a file or a link says is read as markup.

export type Child = Node | string | number | null | undefined | false;
type Listener = (event: never) => void;
export interface Attributes {
  class?: string;
  on?: Record<string, Listener>;
  style?: Record<string, string>;  // set through the object model, which the page's policy allows
  data?: Record<string, string>;
  [name: string]: unknown;
}

const kSvg = "http://www.w3.org/2000/svg";

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(attributes.on ?? {})) {
        element.addEventListener(event, listener as EventListener);
      }
    } else if (name === "style") {
      const style = (element as HTMLElement).style;
      for (const [key, text] of Object.entries(attributes.style ?? {})) style.setProperty(key, text);
    } else if (name === "data") {
      for (const [key, text] of Object.entries(attributes.data ?? {})) element.setAttribute(`data-${key}`, text);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
}

function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

export function s<K extends keyof SVGElementTagNameMap>(
    tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS(kSvg, tag) as SVGElementTagNameMap[K];
  fill(element, attributes, children);
  return element;
}

export function put(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

// A button that copies a text and says so; `what` is for those who hear the page, on which there are several.
export function copyButton(text: () => string, what: string): HTMLButtonElement {
  const word = h("span", {}, "Copy");
  const button = h("button", { type: "button", class: "small" }, word, h("span", { class: "offscreen" }, ` ${what}`));
  button.addEventListener("click", () => {
    void copy(text()).then((done) => {
      word.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => (word.textContent = "Copy"), 1500);
    });
  });
  return button;
}

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page opened from disk may have no clipboard: a selected text field is the old way.
    const area = h("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function download(name: string, content: BlobPart, type: string): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
