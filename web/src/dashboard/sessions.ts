// The tab of sessions: who is connected, and what an administrator can do about it.
// Not here: the table (grid.ts), the questions (dialog.ts), subscriptions of a session (subscriptions.ts).
// Read next: docs/administration.md.

import type { Api } from "./api";
import { Blocks } from "./blocks";
import { askFirst, showDetails, type Action } from "./dialog";
import { bytes, formatted, kbits, moment, number, when, type Format } from "./format";
import type { Column, Row } from "./grid";
import type { Stream } from "./stream";
import { subscriptionsOf } from "./subscriptions";
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
  { field: "user", title: "User", width: "minmax(6rem, 1fr)", narrow: true },
  { field: "address", title: "Address", width: "minmax(6.5rem, 1fr)" },
  { field: "adapter_set", title: "Set", width: "minmax(8rem, 1fr)" },
  { field: "library", title: "Library", width: "minmax(9.5rem, 1fr)" },
  { field: "transport", title: "Transport", width: "minmax(8rem, 0.6fr)", narrow: true },
  { field: "opened_ms", title: "Opened", width: "minmax(6.5rem, 0.6fr)", format: when, numeric: true },
  { field: "bandwidth", title: "Bandwidth", width: "minmax(7rem, 0.6fr)", format: kbits, numeric: true },
  { field: "updates_sec", title: "Updates/s", width: "minmax(8rem, 0.6fr)", format: number, numeric: true, narrow: true },
  { field: "lost", title: "Lost", width: "minmax(4.5rem, 0.4fr)", format: number, numeric: true },
  { field: "unsent_bytes", title: "Unsent", width: "minmax(5.5rem, 0.4fr)", format: bytes, numeric: true },
  { field: "items", title: "Items", width: "minmax(5rem, 0.4fr)", format: number, numeric: true },
];

/** How values are shown in the details of a row, where there is room for more of them. */
const FORMATS: Readonly<Record<string, Format>> = {
  opened_ms: moment,
  bandwidth: kbits,
  max_bandwidth: kbits,
  updates_sec: number,
  updates: number,
  bytes,
  unsent_bytes: bytes,
};

export class Sessions {
  private readonly table: LiveTable;
  private readonly blocks: Blocks;

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
      open: (key, row) =>
        showDetails(`Session ${key}`, formatted(row, FORMATS), this.actions(key, row), subscriptionsOf(key, this.api)),
    });
    this.blocks = new Blocks(api);
    box.prepend(this.blocks.list);
  }

  show(): () => void {
    this.blocks.refresh();
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
            fields: [{ name: "limit", label: "kbit/s", kind: "number", least: 0.001 }],
            run: async ({ limit = "" }) => void (await this.api.ask("PUT", `${path}/bandwidth`, { max_kbps: limit === "" ? null : Number(limit) })),
          }),
      },
      {
        label: "Reset bandwidth…",
        run: () =>
          askFirst({
            title: "Reset the bandwidth?",
            text: `For the session ${key} of ${who}, what the metadata adapter allows holds again.`,
            verb: "Reset bandwidth",
            run: async () => void (await this.api.ask("DELETE", `${path}/bandwidth`)),
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
            run: () => this.blocks.block("user", user),
          }),
      });
    return found;
  }
}
