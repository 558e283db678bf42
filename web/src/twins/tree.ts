// A thing as a tree: names and values, those that can be edited in fields, those that have just changed marked.
// Not here: where things come from and go to (twins.ts).
// Read next: twins.ts.

import type { Json } from "../demo/api";

/** Milliseconds that a change stays marked. */
const MARKED = 1200;

/** What nobody edits here. */
const FIXED = new Set(["thingId", "policyId", "_revision", "_modified", "_created"]);

export class Tree {
  private shown: Json = null;
  private path = "";

  constructor(
    private readonly box: HTMLElement,
    private readonly edited: (pointer: string, value: Json) => void,
  ) {}

  /** Show a thing; `mark` what differs from the one before. Without `editable` it is a past state. */
  show(thing: Json, mark: boolean, editable: boolean): void {
    const focused = document.activeElement instanceof HTMLInputElement ? document.activeElement.dataset["pointer"] : undefined;
    const draft = focused === undefined ? undefined : (document.activeElement as HTMLInputElement).value;
    const before = this.shown;
    this.shown = thing;
    this.path = "";
    this.box.replaceChildren(this.branch(thing, mark ? before : thing, editable));
    if (focused === undefined) return;
    // Somebody is typing: that is not to be lost because something else has changed.
    for (const field of this.box.querySelectorAll("input")) {
      if (field.dataset["pointer"] !== focused || field.disabled) continue;
      if (draft !== undefined) field.value = draft;
      field.focus();
    }
  }

  clear(): void {
    this.shown = null;
    this.box.replaceChildren();
  }

  private branch(value: Json, before: Json, editable: boolean): HTMLElement {
    const list = document.createElement("dl");
    const was = isBranch(before) ? before : {};
    for (const [name, part] of Object.entries(isBranch(value) ? value : {})) {
      const [term, detail] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      const outside = this.path;
      this.path += `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      const old = (was as Record<string, Json>)[name] ?? null;
      if (isBranch(part)) detail.append(this.branch(part, old, editable));
      else detail.append(this.leaf(part, JSON.stringify(part) !== JSON.stringify(old), editable && !FIXED.has(name), name));
      this.path = outside;
      list.append(term, detail);
    }
    return list;
  }

  private leaf(value: Json, changed: boolean, editable: boolean, name: string): HTMLElement {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    if (!editable) {
      const plain = document.createElement("span");
      plain.textContent = text;
      plain.dataset["pointer"] = this.path;
      return marked(plain, changed);
    }
    const field = document.createElement("input");
    field.value = text;
    field.dataset["pointer"] = this.path;
    field.setAttribute("aria-label", `${name}, at ${this.path}`);
    field.size = Math.max(6, Math.min(40, text.length + 1));
    const pointer = this.path;
    field.addEventListener("change", () => this.edited(pointer, typed(field.value, value)));
    return marked(field, changed);
  }
}

function isBranch(value: Json): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What somebody has typed, of the type that it had if possible: a text stays a text, all else is JSON. */
function typed(text: string, before: Json): Json {
  if (typeof before === "string") return text;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

function marked<E extends HTMLElement>(node: E, changed: boolean): E {
  if (changed) {
    node.dataset["changed"] = "true";
    window.setTimeout(() => delete node.dataset["changed"], MARKED);
  }
  return node;
}
