// Who may not open new sessions, and letting them in again.
// Not here: what else an administrator does (sessions.ts, control.ts).
// Read next: docs/administration.md.

import type { Api, Block } from "./api";
import { actionButton, askFirst } from "./dialog";
import { make } from "./make";

export class Blocks {
  readonly list = make("ul", { class: "blocks", "aria-label": "Blocked", hidden: true });

  constructor(private readonly api: Api) {}

  /** Ask the server. One that does not answer is no reason to complain here: the status says so. */
  refresh(): void {
    this.api.ask("GET", "/blocks").then(
      (found) => this.show(found),
      () => undefined,
    );
  }

  /** Block `name`, of a user or an adapter set, or all. */
  async block(scope: string, name = ""): Promise<void> {
    this.show(await this.api.ask("PUT", "/blocks", { scope, name }));
  }

  private show(found: unknown): void {
    const blocks = found as readonly Block[];
    this.list.hidden = blocks.length === 0;
    this.list.replaceChildren(...blocks.map((block) => this.entry(block)));
  }

  private entry(block: Block): HTMLElement {
    const what = block.scope === "all" ? "All new sessions" : `New sessions of ${block.scope.replaceAll("_", " ")} ${block.name}`;
    const entry = make("li", {}, `${what} are blocked by ${block.by} `);
    if (this.api.role === "admin")
      entry.append(
        actionButton({
          label: "Unblock…",
          run: () =>
            askFirst({
              title: "Unblock?",
              text: `${what} are let in again.`,
              verb: "Unblock",
              run: async () => this.show(await this.api.ask("DELETE", `/blocks?${new URLSearchParams({ scope: block.scope, name: block.name })}`)),
            }),
        }),
      );
    return entry;
  }
}
