// The tabs that are tables and nothing else: items, adapters with queries, nodes, the configuration.
// Not here: sessions (sessions.ts), what is done with the whole server (control.ts), how a node is drained (drain.ts).
// Read next: docs/monitor.md, which names the fields.

import type { Api } from "./api";
import { askFirst, showDetails, type Action } from "./dialog";
import { askCancelDrain, askDrain } from "./drain";
import { millis, number } from "./format";
import type { Column, Row } from "./grid";
import { make } from "./make";
import type { Stream } from "./stream";
import { LiveTable } from "./table";

interface Shown {
  readonly item: string;
  readonly title: string;
  /** What one row is. */
  readonly one: string;
  readonly empty: string;
  readonly columns: readonly Column[];
  readonly sort: string;
  readonly descending?: boolean;
}

const ITEMS: Shown = {
  item: "monitor_items",
  title: "items",
  one: "Item",
  empty: "No items: there are no subscriptions.",
  sort: "events_sec",
  descending: true,
  columns: [
    { field: "item", title: "Item", width: "minmax(8rem, 2fr)", narrow: true },
    { field: "adapter_set", title: "Set", width: "minmax(6rem, 1fr)" },
    { field: "data_adapter", title: "Adapter", width: "minmax(6rem, 1fr)", narrow: true },
    { field: "mode", title: "Mode", width: "minmax(5rem, 0.7fr)" },
    { field: "subscribers", title: "Subscribers", width: "minmax(6rem, 0.8fr)", format: number, numeric: true },
    { field: "events_sec", title: "Events/s", width: "minmax(5rem, 0.8fr)", format: number, numeric: true, narrow: true },
    { field: "events", title: "Events", width: "minmax(5rem, 0.8fr)", format: number, numeric: true },
  ],
};

const ADAPTERS: Shown = {
  item: "monitor_adapters",
  title: "adapters",
  one: "Adapter",
  empty: "No adapters.",
  sort: "key",
  columns: [
    { field: "key", title: "Adapter", width: "minmax(9rem, 2fr)", narrow: true },
    { field: "kind", title: "Kind", width: "minmax(5rem, 0.8fr)" },
    { field: "state", title: "State", width: "minmax(5rem, 0.8fr)", narrow: true },
    { field: "trouble", title: "Trouble", width: "minmax(5rem, 1.5fr)" },
    { field: "calls", title: "Calls", width: "minmax(4rem, 0.7fr)", format: number, numeric: true },
    { field: "failures", title: "Failures", width: "minmax(5rem, 0.7fr)", format: number, numeric: true },
    { field: "call_millis", title: "Call", width: "minmax(5rem, 0.7fr)", format: millis, numeric: true },
    { field: "queue", title: "Waiting", width: "minmax(5rem, 0.7fr)", format: number, numeric: true },
    { field: "items", title: "Items", width: "minmax(4rem, 0.7fr)", format: number, numeric: true },
    { field: "events_sec", title: "Events/s", width: "minmax(5rem, 0.8fr)", format: number, numeric: true, narrow: true },
    { field: "events", title: "Events", width: "minmax(5rem, 0.8fr)", format: number, numeric: true },
  ],
};

const QUERIES: Shown = {
  item: "monitor_queries",
  title: "pipeline queries",
  one: "Query",
  empty: "No queries: the pipeline is not running, or uses another data directory than this server.",
  sort: "key",
  columns: [
    { field: "key", title: "Query", width: "minmax(8rem, 1.5fr)", narrow: true },
    { field: "state", title: "State", width: "minmax(5rem, 0.8fr)", narrow: true },
    { field: "rows_sec", title: "Rows/s", width: "minmax(5rem, 0.8fr)", format: number, numeric: true },
    { field: "batch_millis", title: "Batch takes", width: "minmax(6rem, 0.8fr)", format: millis, numeric: true },
    { field: "lag_millis", title: "Lag", width: "minmax(5rem, 0.8fr)", format: millis, numeric: true, narrow: true },
    { field: "batch", title: "Batch", width: "minmax(5rem, 0.8fr)", format: number, numeric: true },
    { field: "error", title: "Error", width: "minmax(6rem, 1.5fr)" },
  ],
};

const NODES: Shown = {
  item: "monitor_nodes",
  title: "processes of the server",
  one: "Node",
  empty: "No processes received yet.",
  sort: "key",
  columns: [
    { field: "key", title: "Name", width: "minmax(6rem, 1fr)", narrow: true },
    { field: "role", title: "Role", width: "minmax(5rem, 0.8fr)", narrow: true },
    { field: "state", title: "State", width: "minmax(5rem, 0.8fr)", narrow: true },
    { field: "sessions", title: "Sessions", width: "minmax(5rem, 0.8fr)", format: number, numeric: true },
    { field: "items", title: "Items", width: "minmax(5rem, 0.8fr)", format: number, numeric: true },
    { field: "lag_millis", title: "Lag", width: "minmax(5rem, 0.8fr)", format: millis, numeric: true },
    { field: "since", title: "Since", width: "minmax(13rem, 1.2fr)" },
    { field: "version", title: "Version", width: "minmax(5rem, 0.6fr)" },
    { field: "node", title: "Node", width: "minmax(8rem, 1fr)" },
    { field: "epoch", title: "Epoch", width: "minmax(12rem, 1fr)" },
  ],
};

const CONFIGURATION: Shown = {
  item: "monitor_configuration",
  title: "keys of the configuration",
  one: "Key",
  empty: "No configuration received yet.",
  sort: "key",
  columns: [
    { field: "key", title: "Key", width: "minmax(12rem, 1.4fr)", narrow: true },
    { field: "value", title: "Value", width: "minmax(8rem, 1.6fr)", narrow: true },
    { field: "origin", title: "Origin", width: "minmax(8rem, 1fr)", narrow: true },
  ],
};

function liveTable(box: HTMLElement, stream: Stream, shown: Shown, actions: (key: string, row: Row) => readonly Action[] = () => []): LiveTable {
  const fields = shown.columns.map((column) => column.field).filter((field) => field !== "key");
  // The key is a column as well where it is a name.
  const all = shown.columns.some((column) => column.field === "key") ? [...fields, "key"] : fields;
  return new LiveTable(box, stream, shown.item, all, {
    label: shown.title,
    columns: shown.columns,
    sort: shown.sort,
    descending: shown.descending ?? false,
    empty: shown.empty,
    open: (key, row) => showDetails(`${shown.one} ${key}`, row, actions(key, row)),
  });
}

export function itemsTable(box: HTMLElement, stream: Stream): LiveTable {
  return liveTable(box, stream, ITEMS);
}

/** Nodes with clients, beside which there are others, can be drained one by one. */
export function nodesTable(box: HTMLElement, stream: Stream, api: Api): LiveTable {
  return liveTable(box, stream, NODES, (node, row) => {
    if (api.role !== "admin" || !["edge", "both"].includes(String(row["role"]))) return [];
    if (row["state"] === "draining") return [{ label: "Cancel drain…", run: () => askCancelDrain({ api, node }) }];
    return [{ label: "Drain…", run: () => askDrain({ api, node }) }];
  });
}

export function configurationTable(box: HTMLElement, stream: Stream): LiveTable {
  return liveTable(box, stream, CONFIGURATION);
}

/** Two tables, one below the other. */
export class AdaptersAndQueries {
  private readonly tables: readonly LiveTable[];

  constructor(
    box: HTMLElement,
    stream: Stream,
    private readonly api: Api,
  ) {
    this.tables = [ADAPTERS, QUERIES].map((shown) => {
      const part = make("section", { class: "half", "data-table": shown.item }, make("h2", {}, shown.title));
      box.append(part);
      return liveTable(part, stream, shown, shown === ADAPTERS ? (key, row) => this.actions(key, row) : undefined);
    });
  }

  private actions(adapter: string, row: Row): readonly Action[] {
    if (this.api.role !== "admin" || row["state"] !== "failed") return [];
    return [
      {
        label: "Clear failure…",
        run: () =>
          askFirst({
            title: "Clear the failure?",
            text: `The server forgets that ${adapter} has failed, because what was wrong has been put right.`,
            verb: "Clear failure",
            run: async () => void (await this.api.ask("POST", "/adapters/clear", { adapter })),
          }),
      },
    ];
  }

  show(): () => void {
    const ends = this.tables.map((table) => table.show());
    return () => ends.forEach((end) => end());
  }
}
