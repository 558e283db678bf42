// The tab Market: the stock list, and what the pipeline computes from it.
// Not here: the table (table.ts), candles and movers (analytics.ts).
// Read next: stocks.ts, which says what is subscribed to.

import { copyable } from "../demo/copy";
import type { Shell, Source } from "../demo/tab";
import { element } from "../element";
import { Analytics } from "./analytics";
import markup from "./market.html?raw";
import { ADAPTER_SET, COLUMNS, DATA_ADAPTER, FIELDS, ITEMS } from "./stocks";
import { StockTable } from "./table";

export const sources: readonly Source[] = [
  { name: "market.ts", load: () => import("./market.ts?raw") },
  { name: "table.ts", load: () => import("./table.ts?raw") },
  { name: "analytics.ts", load: () => import("./analytics.ts?raw") },
  { name: "stocks.py (server)", load: () => import("../../../src/penstock/adapters/demo/stocks.py?raw") },
  { name: "candles.py (Spark)", load: () => import("../../../src/penstock/pipeline/jobs/candles.py?raw") },
];

/** Updates a second of each stock. */
const FREQUENCIES = { unlimited: "No limit", "5": "5 a second", "1": "1 a second" } as const;

export function open(view: HTMLElement, shell: Shell): () => void {
  view.innerHTML = markup;
  const session = shell.session(ADAPTER_SET);
  const table = new StockTable(element("stocks", HTMLTableElement), ITEMS, COLUMNS);
  const analytics = new Analytics(session);

  const stocks = session.watch({
    adapter: DATA_ADAPTER,
    mode: "MERGE",
    items: ITEMS,
    fields: FIELDS,
    update(update) {
      const quiet = update.isSnapshot();
      update.forEachChangedField((field, _position, value) => {
        table.set(update.getItemName(), field, value, quiet);
        if (field === "stock_name") analytics.setName(update.getItemName(), value);
      });
    },
    refused: (code, message) => shell.complain(`The server refused the stock list: ${message} (code ${code})`),
  });

  const frequency = element("frequency", HTMLSelectElement);
  for (const [value, words] of Object.entries(FREQUENCIES)) frequency.add(new Option(words, value));
  frequency.value = "unlimited";
  frequency.addEventListener("change", () => stocks.setFrequency(frequency.value));

  shell.onLive((live) => {
    table.setStale(!live);
    analytics.setConnected(live);
  });

  element("notify-link", HTMLAnchorElement).href = new URL("notify/", shell.address).href;
  copyable(element("curl", HTMLElement), element("copy", HTMLButtonElement), command(shell.address));
  return () => analytics.end();
}

/** The client id that the TLCP specification gives to hand-written clients, percent-encoded. */
const CLIENT_ID = "mgQkwtwdysogQz2BJ4Ji%20kOj2Bg";

function command(address: string): string {
  const request = [
    `LS_adapter_set=${ADAPTER_SET}`,
    `LS_cid=${CLIENT_ID}`,
    "LS_op=add",
    "LS_subId=1",
    `LS_data_adapter=${DATA_ADAPTER}`,
    "LS_group=item2",
    "LS_schema=stock_name%20time%20last_price",
    "LS_mode=MERGE",
    "LS_snapshot=true",
  ].join("&");
  // A path may contain an apostrophe, which would end the shell's quotation.
  return `curl -N -d '${request}' '${address.replaceAll("'", "%27")}lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0'`;
}
