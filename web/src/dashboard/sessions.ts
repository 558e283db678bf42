// The tab of sessions: who is connected, and what an administrator can do about it.
// Not here: the table (grid.ts), the questions (dialog.ts).
// Read next: docs/administration.md.

import type { Api, Block } from "./api";
import { askFirst, showDetails, type Action } from "./dialog";
import { bytes, kbits, moment, number } from "./format";
import type { Column, Row } from "./grid";
import { make } from "./make";
import type { Stream } from "./stream";
import { LiveTable } from "./table";

const FIELDS = [
  "user",
  "address",
  "adapter_set",
  "library",
  "protocol",
  "transport",
  "opened_ms",
  "bandwidth",
  "max_bandwidth",
  "updates_sec",
  "updates",
  "bytes",
  "lost",
  "subscriptions",
  "items",
  "unsent_bytes",
];

const COLUMNS: readonly Column[] = [
  { field: "user", title: "User", width: "minmax(6rem, 1.4fr)", narrow: true },
  { field: "address", title: "Address", width: "minmax(6rem, 1.2fr)" },
  { field: "adapter_set", title: "Set", width: "minmax(5rem, 1fr)" },
  { field: "library", title: "Library", width: "minmax(5rem, 1fr)" },
  { field: "transport", title: "Transport", width: "minmax(6rem, 1fr)", narrow: true },
  { field: "opened_ms", title: "Opened", width: "minmax(10rem, 1.4fr)", format: moment, numeric: true },
  { field: "bandwidth", title: "Bandwidth", width: "minmax(6rem, 1fr)", format: kbits, numeric: true },
  { field: "updates_sec", title: "Updates/s", width: "minmax(7rem, 0.9fr)", format: number, numeric: true, narrow: true },
  { field: "lost", title: "Lost", width: "minmax(4rem, 0.6fr)", format: number, numeric: true },
  { field: "unsent_bytes", title: "Unsent", width: "minmax(5rem, 0.7fr)", format: bytes, numeric: true },
  { field: "items", title: "Items", width: "minmax(4rem, 0.6fr)", format: number, numeric: true },
];

export class Sessions {
  private readonly table: LiveTable;
  private readonly blocks = make("ul", { class: "blocks", "aria-label": "Blocked", hidden: true });

  constructor(
    box: HTMLElement,
    stream: Stream,
    private readonly api: Api,
  ) {
    this.table = new LiveTable(box, stream, "monitor_sessions", FIELDS, {
      label: "sessions",
      columns: COLUMNS,
      sort: "updates_sec",
      descending: true,
      empty: "No sessions.",
      open: (key, row) => showDetails(`Session ${key}`, { ...row, opened_ms: moment(row["opened_ms"] ?? null) }, this.actions(key, row)),
    });
    box.prepend(this.blocks);
  }

  show(): () => void {
    // A server that does not answer is no reason to complain here: the status says so.
    this.api.ask("GET", "/blocks").then(
      (found) => this.showBlocks(found),
      () => undefined,
    );
    return this.table.show();
  }

  private actions(key: string, row: Row): Action[] {
    if (this.api.role !== "admin") return [];
    const path = `/sessions/${encodeURIComponent(key)}`;
    const who = row["user"] ?? "anonymous";
    const found: Action[] = [
      {
        label: "End session…",
        run: () =>
          askFirst({
            title: "End the session?",
            text: `The session ${key} of ${who} will be closed. Its client is told that an administrator closed it.`,
            verb: "End session",
            run: async () => void (await this.api.ask("DELETE", path)),
          }),
      },
      {
        label: "Set bandwidth…",
        run: () =>
          askFirst({
            title: "Set the bandwidth?",
            text: `The session ${key} of ${who} gets at most this bandwidth. Empty: no limit.`,
            verb: "Set bandwidth",
            number: "kbit/s",
            run: async (typed) => void (await this.api.ask("PUT", `${path}/bandwidth`, { max_kbps: typed === "" ? null : Number(typed) })),
          }),
      },
    ];
    const user = row["user"];
    if (user)
      found.push({
        label: "Block user…",
        run: () =>
          askFirst({
            title: "Block the user?",
            text: `New sessions of ${user} are refused until somebody unblocks the user or the server restarts. Open sessions continue.`,
            verb: "Block user",
            run: async () => this.showBlocks(await this.api.ask("PUT", "/blocks", { scope: "user", name: user })),
          }),
      });
    return found;
  }

  private showBlocks(found: unknown): void {
    const blocks = found as readonly Block[];
    this.blocks.hidden = blocks.length === 0;
    this.blocks.replaceChildren(...blocks.map((block) => this.block(block)));
  }

  private block(block: Block): HTMLElement {
    const what = block.scope === "all" ? "All new sessions" : `New sessions of ${block.scope} ${block.name}`;
    const entry = make("li", {}, `${what} are blocked by ${block.by} `);
    if (this.api.role !== "admin") return entry;
    const button = make("button", { type: "button" }, "Unblock…");
    button.addEventListener("click", () =>
      askFirst({
        title: "Unblock?",
        text: `${what} are accepted again.`,
        verb: "Unblock",
        run: async () => this.showBlocks(await this.api.ask("DELETE", `/blocks?${new URLSearchParams({ scope: block.scope, name: block.name })}`)),
      }),
    );
    entry.append(button);
    return entry;
  }
}
