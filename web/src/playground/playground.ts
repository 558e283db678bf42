// The tab Playground: any subscription, and the lines of the protocol beside their meaning.
// Not here: what lines other than updates mean (meanings.ts), where lines come from (../demo/wire.ts).
// Read next: meanings.ts.

import type { ItemUpdate } from "lightstreamer-client-web/core";
import type { Mode } from "../demo/session";
import type { Shell, Source } from "../demo/tab";
import { wire } from "../demo/wire";
import { element } from "../element";
import { meaningOf } from "./meanings";
import markup from "./playground.html?raw";

export const sources: readonly Source[] = [
  { name: "playground.ts", load: () => import("./playground.ts?raw") },
  { name: "meanings.ts", load: () => import("./meanings.ts?raw") },
  { name: "wire.ts", load: () => import("../demo/wire.ts?raw") },
];

/** Lines on screen, the newest first. */
const SHOWN = 100;

/** What is not shown of a line: no screen has room for more. */
const LONGEST = 400;

interface Preset {
  readonly title: string;
  readonly values: Readonly<Record<string, string>>;
}

const PRESETS: readonly Preset[] = [
  { title: "Prices", values: { set: "WELCOME", adapter: "STOCKS", mode: "MERGE", items: "item2 item5 item11", fields: "stock_name last_price pct_change time", frequency: "unlimited" } },
  { title: "One a second", values: { set: "WELCOME", adapter: "STOCKS", mode: "MERGE", items: "item2 item11 item25", fields: "last_price", frequency: "1" } },
  { title: "Rows", values: { set: "WELCOME", adapter: "PORTFOLIO", mode: "COMMAND", items: "portfolio1", fields: "key command qty", frequency: "unlimited" } },
  { title: "Chat", values: { set: "WELCOME", adapter: "CHAT", mode: "DISTINCT", items: "chat_room", fields: "timestamp nick message", frequency: "unlimited" } },
  { title: "A thing", values: { set: "DITTO", adapter: "THINGS", mode: "MERGE", items: "penstock.demo:lamp", fields: "_revision /features", frequency: "unlimited", user: "ditto", password: "ditto" } },
];

export function open(view: HTMLElement, shell: Shell): () => void {
  view.innerHTML = markup;
  const lines = new Lines(element("lines", HTMLTableElement));
  const answer = element("ask-answer", HTMLElement);
  const field = (name: string): HTMLInputElement | HTMLSelectElement => document.getElementById(`ask-${name}`) as HTMLInputElement;

  function fill({ values }: Preset): void {
    for (const name of ["set", "adapter", "mode", "items", "fields", "frequency", "user", "password"]) field(name).value = values[name] ?? "";
    subscribe();
  }

  function subscribe(): void {
    const words = (name: string): string[] => field(name).value.trim().split(/\s+/).filter(Boolean);
    const user = field("user").value;
    answer.textContent = "";
    lines.clear();
    try {
      const session = shell.session(field("set").value, user === "" ? undefined : { user, password: field("password").value });
      session.watch({
        adapter: field("adapter").value,
        mode: field("mode").value as Mode,
        items: words("items"),
        fields: words("fields"),
        frequency: field("frequency").value || "unlimited",
        update: (update) => lines.decoded(update),
        refused: (code, message) => (answer.textContent = `Refused: ${message} (code ${code})`),
      });
    } catch (error) {
      // What the library itself does not take, such as a frequency that is no number.
      answer.textContent = `Not possible: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  for (const preset of PRESETS) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = preset.title;
    button.addEventListener("click", () => fill(preset));
    element("presets", HTMLElement).append(button);
  }
  element("ask", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    subscribe();
  });
  const hold = element("hold", HTMLButtonElement);
  hold.addEventListener("click", () => {
    const held = hold.getAttribute("aria-pressed") !== "true";
    hold.setAttribute("aria-pressed", String(held));
    lines.hold(held);
  });
  const stop = wire.listen((line) => lines.add(line));
  if (PRESETS[0] !== undefined) fill(PRESETS[0]);
  return stop;
}

/** One line and what it means. */
interface Entry {
  readonly line: string;
  meaning: string | undefined;
}

class Lines {
  private readonly body: HTMLTableSectionElement;
  private entries: Entry[] = [];
  /** Updates whose values the library has not told yet: it tells them in the order of their lines. */
  private undecoded: Entry[] = [];
  private frame: number | undefined;
  private held = false;

  constructor(table: HTMLTableElement) {
    this.body = table.tBodies[0] as HTMLTableSectionElement;
  }

  add(line: string): void {
    const entry = { line, meaning: meaningOf(line) };
    this.entries = [entry, ...this.entries].slice(0, SHOWN);
    if (entry.meaning === undefined) this.undecoded.push(entry);
    // A new session, or the same one from an earlier point: what was not told by now will not be.
    if (line.startsWith("CONOK") || line.startsWith("PROG")) this.undecoded = [];
    this.ask();
  }

  decoded(update: ItemUpdate): void {
    const entry = this.undecoded.shift();
    if (entry === undefined) return;
    const values: string[] = [];
    update.forEachChangedField((name, _position, value) => values.push(`${name} = ${value ?? "null"}`));
    entry.meaning = `${update.getItemName()}${update.isSnapshot() ? " (snapshot)" : ""}: ${values.join(", ")}`;
    this.ask();
  }

  clear(): void {
    this.entries = [];
    this.undecoded = [];
    this.ask();
  }

  hold(held: boolean): void {
    this.held = held;
    this.ask();
  }

  private ask(): void {
    if (!this.held) this.frame ??= requestAnimationFrame(this.draw);
  }

  private readonly draw = (): void => {
    this.frame = undefined;
    this.body.replaceChildren(
      ...this.entries.map(({ line, meaning }) => {
        const row = document.createElement("tr");
        row.dataset["tag"] = line.split(",", 1)[0] ?? "";
        const [raw, words] = [document.createElement("td"), document.createElement("td")];
        const code = document.createElement("code");
        code.textContent = line.slice(0, LONGEST);
        raw.append(code);
        words.textContent = (meaning ?? "…").slice(0, LONGEST);
        row.append(raw, words);
        return row;
      }),
    );
  };
}
