// The list of what the person has asked for, as the server's items about it say: waiting, or told, and when.
// Not here: where the values come from (main.ts).
// Read next: docs/push.md, "What a client asks for".

import { element } from "../element";
import type { Values } from "./tlcp";

/** Of an item about a subscription, in the order of the values. */
export const FIELDS = ["status", "status_timestamp", "trigger"] as const;

const TRIGGER = /^Double\.parseDouble\(\$\[\d+\]\) ([<>]) ([\d.]+)$/;

export class Alarms {
  private readonly list = element("alarms", HTMLUListElement);
  private readonly rows = new Map<string, HTMLLIElement>();

  constructor(
    private readonly stock: string,
    private readonly remove: (key: string) => void,
  ) {}

  show(key: string, [status, millis, trigger]: Values): void {
    let row = this.rows.get(key);
    if (row === undefined) {
      row = document.createElement("li");
      row.dataset["alarm"] = key;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Remove";
      button.addEventListener("click", () => this.remove(key));
      row.append(document.createElement("span"), button);
      this.rows.set(key, row);
      this.list.prepend(row);
    }
    row.dataset["status"] = status ?? "";
    const [, direction, price] = TRIGGER.exec(trigger ?? "") ?? [];
    const what = price === undefined ? (trigger ?? "each update") : `${this.stock} ${direction === ">" ? "above" : "below"} ${price}`;
    const when = new Date(Number(millis)).toLocaleTimeString();
    const state = status === "TRIGGERED" ? `reached at ${when}; a notification was sent` : "waiting";
    (row.firstElementChild as HTMLSpanElement).textContent = `${what}: ${state}`;
    this.count();
  }

  drop(key: string): void {
    this.rows.get(key)?.remove();
    this.rows.delete(key);
    this.count();
  }

  clear(): void {
    for (const key of [...this.rows.keys()]) this.drop(key);
  }

  private count(): void {
    element("none", HTMLElement).hidden = this.rows.size > 0;
  }
}
