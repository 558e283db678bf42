// Making elements. Text goes in as text and never as markup, because names come from strangers.
// Not here: finding elements of the page (../element.ts).

type Attributes = Readonly<Record<string, string | number | boolean>>;

export const SVG = "http://www.w3.org/2000/svg";

export function make<K extends keyof HTMLElementTagNameMap>(name: K, attributes: Attributes = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  set(made, attributes);
  made.append(...children);
  return made;
}

export function draw<K extends keyof SVGElementTagNameMap>(name: K, attributes: Attributes = {}, ...children: (Node | string)[]): SVGElementTagNameMap[K] {
  const made = document.createElementNS(SVG, name);
  set(made, attributes);
  made.append(...children);
  return made;
}

export function set(node: Element, attributes: Attributes): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false) node.removeAttribute(key);
    else node.setAttribute(key, typeof value === "number" ? String(Math.round(value * 10) / 10) : value === true ? "" : value);
  }
}
