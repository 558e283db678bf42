// What the page subscribes to: adapter set, data adapter, items, and the fields in the order in which they are shown.
// Not here: how they are shown (table.ts) or fetched (connection.ts).
// Read next: table.ts.

export const ADAPTER_SET = "WELCOME";
export const DATA_ADAPTER = "STOCKS";

/** How many stocks the demo feed offers. */
const STOCKS = 30;
export const ITEMS: readonly string[] = Array.from({ length: STOCKS }, (_, index) => `item${index + 1}`);

/** `name` heads its row; `figure` and `change` flash when they move; `change` is also coloured by its sign. */
export type Kind = "name" | "figure" | "change" | "time";

export interface Column {
  readonly field: string;
  readonly title: string;
  readonly kind: Kind;
}

export const COLUMNS: readonly Column[] = [
  { field: "stock_name", title: "Name", kind: "name" },
  { field: "last_price", title: "Last", kind: "figure" },
  { field: "pct_change", title: "Change", kind: "change" },
  { field: "time", title: "Time", kind: "time" },
  { field: "bid_quantity", title: "Bid size", kind: "figure" },
  { field: "bid", title: "Bid", kind: "figure" },
  { field: "ask", title: "Ask", kind: "figure" },
  { field: "ask_quantity", title: "Ask size", kind: "figure" },
  { field: "min", title: "Min", kind: "figure" },
  { field: "max", title: "Max", kind: "figure" },
  { field: "ref_price", title: "Ref.", kind: "figure" },
  { field: "open_price", title: "Open", kind: "figure" },
];

export const FIELDS: readonly string[] = COLUMNS.map((column) => column.field);
