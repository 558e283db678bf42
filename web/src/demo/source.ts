// The files that a tab is made of, shown below it: loaded when somebody wants to see them.
// Not here: which files those are (each tab says so).
// Read next: tab.ts.

import { element } from "../element";
import type { Source } from "./tab";

/** Comments, texts and words of TypeScript, Python and HTML, as far as colours need it. */
const TOKENS =
  /(?<comment>\/\/.*|\/\*[\s\S]*?\*\/|<!--[\s\S]*?-->|^\s*#.*|"""[\s\S]*?""")|(?<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|(?<word>\b(?:import|from|export|const|let|class|interface|type|function|return|if|else|elif|for|of|in|new|private|readonly|static|async|await|def|self|raise|not|and|or|None|True|False|null|undefined|true|false|extends|implements|this)\b)/gm;

export function showSources(sources: readonly Source[]): void {
  const box = element("source", HTMLDetailsElement);
  const names = element("source-names", HTMLElement);
  const code = element("source-code", HTMLElement);
  box.open = false;
  code.textContent = "";
  const choose = async (source: Source, button: HTMLButtonElement): Promise<void> => {
    for (const other of names.children) other.setAttribute("aria-pressed", String(other === button));
    const { default: text } = await source.load();
    if (button.isConnected) code.replaceChildren(...coloured(text));
  };
  const buttons = sources.map((source) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = source.name;
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => void choose(source, button));
    return button;
  });
  names.replaceChildren(...buttons);
  box.ontoggle = () => {
    if (box.open && code.textContent === "") buttons[0]?.click();
  };
}

/** The text with its parts marked; it is text all the same, never markup. */
function coloured(text: string): Node[] {
  const nodes: Node[] = [];
  let at = 0;
  for (const found of text.matchAll(TOKENS)) {
    if (found.index > at) nodes.push(document.createTextNode(text.slice(at, found.index)));
    const [kind] = Object.entries(found.groups ?? {}).find(([, value]) => value !== undefined) ?? ["text"];
    const part = document.createElement("span");
    part.className = `code-${kind}`;
    part.textContent = found[0];
    nodes.push(part);
    at = found.index + found[0].length;
  }
  nodes.push(document.createTextNode(text.slice(at)));
  return nodes;
}
