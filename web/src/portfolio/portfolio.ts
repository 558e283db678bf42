// The tab Portfolio: rows of a COMMAND item with prices by two-level push, and orders as messages.
// Not here: the connection (../demo/session.ts).
// Read next: docs/modes.md, "COMMAND".

import type { ItemUpdate } from "lightstreamer-client-web/core";
import type { Shell, Source } from "../demo/tab";
import { element } from "../element";
import { direction, Flash } from "../flash";
import { fixed } from "../market/digits";
import { ADAPTER_SET, DATA_ADAPTER, ITEMS } from "../market/stocks";
import markup from "./portfolio.html?raw";

export const sources: readonly Source[] = [
  { name: "portfolio.ts", load: () => import("./portfolio.ts?raw") },
  { name: "portfolio.html", load: async () => ({ default: markup }) },
  { name: "portfolio.py (server)", load: () => import("../../../src/penstock/adapters/demo/portfolio.py?raw") },
];

const PORTFOLIO = "portfolio1";

const amount = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const whole = new Intl.NumberFormat("en");

class Row {
  readonly node = document.createElement("tr");
  quantity = 0;
  price = Number.NaN;
  private readonly cells: Readonly<Record<"name" | "quantity" | "price" | "change" | "value" | "share", HTMLElement>>;
  private readonly bar = document.createElement("meter");

  constructor(readonly key: string) {
    this.node.dataset["key"] = key;
    const cell = (kind: "th" | "td", name: string, wide = false): HTMLElement => {
      const made = document.createElement(kind);
      made.dataset["holding"] = name;
      if (kind === "th") (made as HTMLTableCellElement).scope = "row";
      if (kind === "th") made.classList.add("name");
      if (wide) made.classList.add("wide");
      this.node.append(made);
      return made;
    };
    this.cells = {
      name: cell("th", "name"),
      quantity: cell("td", "quantity"),
      price: cell("td", "price"),
      change: cell("td", "change", true),
      value: cell("td", "value"),
      share: cell("td", "share", true),
    };
    this.bar.min = 0;
    this.bar.max = 1;
    this.cells.share.append(this.bar);
  }

  get value(): number {
    return this.quantity * this.price;
  }

  take(update: ItemUpdate, flash: Flash): void {
    const text = (field: string): string => update.getValue(field) ?? "";
    this.quantity = Number(text("qty"));
    this.cells.name.textContent = text("stock_name") || this.key;
    this.bar.setAttribute("aria-label", `Share of ${text("stock_name") || this.key}`);
    this.cells.quantity.textContent = whole.format(this.quantity);
    const price = text("last_price");
    const moved = Number.isNaN(this.price) ? undefined : direction(String(this.price), price);
    this.price = price === "" ? Number.NaN : Number(price);
    this.cells.price.textContent = fixed(price);
    const change = text("pct_change");
    this.cells.change.textContent = fixed(change);
    const sign = direction("0", change);
    if (sign === undefined) delete this.cells.change.dataset["sign"];
    else this.cells.change.dataset["sign"] = sign;
    this.cells.value.textContent = Number.isNaN(this.value) ? "" : amount.format(this.value);
    if (moved !== undefined && !update.isSnapshot()) this.flash(flash, moved);
  }

  private flash(flash: Flash, towards: "up" | "down"): void {
    flash.start(this.cells.price, towards);
    flash.start(this.cells.value, towards);
  }

  showShare(total: number): void {
    const share = total > 0 ? this.value / total : 0;
    this.bar.value = Number.isNaN(share) ? 0 : share;
    this.bar.textContent = `${Math.round(share * 100)} %`;
  }
}

export function open(view: HTMLElement, shell: Shell): () => void {
  view.innerHTML = markup;
  const session = shell.session(ADAPTER_SET);
  const table = element("holdings", HTMLTableElement);
  const body = table.tBodies[0] as HTMLTableSectionElement;
  const rows = new Map<string, Row>();
  const flash = new Flash();

  const sumUp = (): void => {
    const total = [...rows.values()].reduce((sum, row) => sum + (Number.isNaN(row.value) ? 0 : row.value), 0);
    element("total", HTMLElement).textContent = amount.format(total);
    for (const row of rows.values()) row.showShare(total);
    element("no-holdings", HTMLElement).hidden = rows.size > 0;
  };

  session.watch({
    adapter: "PORTFOLIO",
    mode: "COMMAND",
    items: [PORTFOLIO],
    fields: ["key", "command", "qty"],
    second: { adapter: DATA_ADAPTER, fields: ["stock_name", "last_price", "pct_change"] },
    update(update) {
      const key = update.getValue("key") ?? "";
      if (update.getValue("command") === "DELETE") {
        rows.get(key)?.node.remove();
        rows.delete(key);
      } else {
        let row = rows.get(key);
        if (row === undefined) {
          row = new Row(key);
          rows.set(key, row);
          body.append(row.node);
        }
        row.take(update, flash);
      }
      sumUp();
    },
    cleared() {
      rows.clear();
      body.replaceChildren();
    },
    refused: (code, message) => shell.complain(`The server refused the portfolio: ${message} (code ${code})`),
  });

  // What can be bought: the names of all stocks, once.
  const choice = element("order-stock", HTMLSelectElement);
  for (const item of ITEMS) choice.add(new Option(item, item, item === "item2", item === "item2"));
  session.watch({
    adapter: DATA_ADAPTER,
    mode: "MERGE",
    items: ITEMS,
    fields: ["stock_name"],
    update(update) {
      const option = choice.options[ITEMS.indexOf(update.getItemName())];
      if (option !== undefined) option.text = update.getValue("stock_name") ?? option.value;
    },
  });

  const answer = element("order-answer", HTMLElement);
  element("order", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    const side = (event.submitter as HTMLButtonElement | null)?.value ?? "BUY";
    const quantity = element("order-quantity", HTMLInputElement).value.trim();
    const what = `${side === "BUY" ? "Bought" : "Sold"} ${quantity} of ${choice.selectedOptions[0]?.text ?? choice.value}.`;
    answer.dataset["tone"] = "wait";
    answer.textContent = "Sent…";
    session.send(`${side}|${PORTFOLIO}|${choice.value}|${quantity}`).then(
      () => say("live", what),
      (error: Error) => say("off", `Refused: ${error.message}`),
    );
  });
  function say(tone: string, words: string): void {
    answer.dataset["tone"] = tone;
    answer.textContent = words;
  }

  shell.onLive((live) => {
    table.dataset["stale"] = String(!live);
  });
  return () => undefined;
}
