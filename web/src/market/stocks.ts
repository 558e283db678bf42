// What the page subscribes to: adapter set, data adapter, items, and the fields in the order in which they are shown.
// Not here: how they are shown (table.ts) or fetched (market.ts).
// Read next: table.ts.

import { PRICE_DIGITS } from "./digits";

export const ADAPTER_SET = "WELCOME";
export const DATA_ADAPTER = "STOCKS";

/** How many stocks the demo feed offers. */
const STOCKS = 30;
export const ITEMS: readonly string[] = Array.from({ length: STOCKS }, (_, index) => `item${index + 1}`);

/** `name` heads its row; `price` and `change` flash when they move, other figures do not, because all of them at once would be noise;
 * `change` is also coloured by its sign. */
export type Kind = "name" | "price" | "figure" | "change" | "time";

export interface Column {
  readonly field: string;
  readonly title: string;
  readonly kind: Kind;
  /** After the point; without it, the text is shown as it was sent. */
  readonly digits?: number;
}

export const COLUMNS: readonly Column[] = [
  { field: "stock_name", title: "Name", kind: "name" },
  { field: "last_price", title: "Last", kind: "price", digits: PRICE_DIGITS },
  { field: "pct_change", title: "Change", kind: "change", digits: PRICE_DIGITS },
  { field: "time", title: "Time", kind: "time" },
  { field: "bid_quantity", title: "Bid size", kind: "figure" },
  { field: "bid", title: "Bid", kind: "figure", digits: PRICE_DIGITS },
  { field: "ask", title: "Ask", kind: "figure", digits: PRICE_DIGITS },
  { field: "ask_quantity", title: "Ask size", kind: "figure" },
  { field: "min", title: "Min", kind: "figure", digits: PRICE_DIGITS },
  { field: "max", title: "Max", kind: "figure", digits: PRICE_DIGITS },
  { field: "ref_price", title: "Ref.", kind: "figure", digits: PRICE_DIGITS },
  { field: "open_price", title: "Open", kind: "figure", digits: PRICE_DIGITS },
];

export const FIELDS: readonly string[] = COLUMNS.map((column) => column.field);
