// The table of stocks that gained and lost most: rows come, change and go as the COMMAND item says.
// Not here: the stock list (table.ts), subscribing (analytics.ts).
// Read next: docs/pipeline.md, job movers.

import { direction, Flash } from "../flash";
import { fixed } from "./digits";

export const MOVER_FIELDS = ["key", "command", "name", "price", "change", "side", "rank"] as const;

export interface Mover {
  readonly key: string;
  readonly name: string;
  readonly price: string;
  readonly change: string;
  readonly side: string;
  readonly rank: number;
}

const COLUMNS = [
  { field: "name", title: "Name" },
  { field: "price", title: "Last" },
  { field: "change", title: "Change" },
] as const;

export class MoversTable {
  private readonly movers = new Map<string, Mover>();
  private readonly flash = new Flash();
  private readonly body: HTMLTableSectionElement;
  private frame: number | undefined;

  constructor(table: HTMLTableElement) {
    const head = table.createTHead().insertRow();
    for (const { field, title } of COLUMNS) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.dataset["mover"] = field;
      cell.textContent = title;
      head.append(cell);
    }
    this.body = table.createTBody();
  }

  get size(): number {
    return this.movers.size;
  }

  set(mover: Mover): void {
    this.movers.set(mover.key, mover);
    this.ask();
  }

  delete(key: string): void {
    this.movers.delete(key);
    this.ask();
  }

  clear(): void {
    this.movers.clear();
    this.ask();
  }

  private ask(): void {
    this.frame ??= requestAnimationFrame(this.draw);
  }

  private readonly draw = (): void => {
    this.frame = undefined;
    const before = new Map([...this.body.rows].map((row) => [row.dataset["key"], row]));
    // From the largest gain to the largest loss.
    const sorted = [...this.movers.values()].sort((one, other) => Number(other.change) - Number(one.change));
    this.body.replaceChildren(...sorted.map((mover) => this.row(mover, before.get(mover.key))));
  };

  private row(mover: Mover, known: HTMLTableRowElement | undefined): HTMLTableRowElement {
    const row = known ?? newRow(mover.key);
    const [name, price, change] = [...row.cells];
    if (name === undefined || price === undefined || change === undefined) throw new Error("a row of movers has three cells");
    const moved = direction(price.textContent, fixed(mover.price));
    name.textContent = mover.name;
    price.textContent = fixed(mover.price);
    change.textContent = fixed(mover.change);
    const sign = direction("0", mover.change);
    if (sign === undefined) delete change.dataset["sign"];
    else change.dataset["sign"] = sign;
    if (moved !== undefined) this.flash.start(price, moved);
    return row;
  }
}

function newRow(key: string): HTMLTableRowElement {
  const row = document.createElement("tr");
  row.dataset["key"] = key;
  for (const { field } of COLUMNS) {
    const cell = document.createElement(field === "name" ? "th" : "td");
    if (field === "name") cell.scope = "row";
    cell.dataset["mover"] = field;
    row.append(cell);
  }
  return row;
}
