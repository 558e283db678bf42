// The table: one row an item, one cell a field; values go in as they arrive and reach the screen once a frame.
// Not here: where values come from (market.ts), which columns a narrow screen keeps (page.css).
// Read next: ../flash.ts.

import { direction, Flash } from "../flash";
import { fixed } from "./digits";
import type { Column, Kind } from "./stocks";

interface Cell {
  readonly kind: Kind;
  readonly digits: number | undefined;
  readonly node: HTMLElement;
}

interface Change {
  readonly value: string;
  readonly quiet: boolean;
}

/** Milliseconds between two drawings: nobody reads a figure that stays for less. */
const PAUSE = 50;

export class StockTable {
  private readonly rows = new Map<string, ReadonlyMap<string, Cell>>();
  private readonly flash = new Flash();
  // At most one change a cell: however fast the feed, a frame costs no more than the table has cells.
  private readonly pending = new Map<Cell, Change>();
  private frame: number | undefined;
  private drawn = 0;

  constructor(
    private readonly table: HTMLTableElement,
    items: readonly string[],
    columns: readonly Column[],
  ) {
    const head = table.createTHead().insertRow();
    for (const column of columns) {
      const node = document.createElement("th");
      node.scope = "col";
      node.dataset["field"] = column.field;
      node.textContent = column.title;
      head.append(node);
    }
    const body = table.createTBody();
    for (const item of items) {
      const row = body.insertRow();
      row.dataset["item"] = item;
      this.rows.set(item, new Map(columns.map((column) => [column.field, addCell(row, column)])));
    }
  }

  /** Take one new value. `quiet` values (a snapshot) are shown without flashing; null empties the cell. */
  set(item: string, field: string, value: string | null, quiet: boolean): void {
    const cell = this.rows.get(item)?.get(field);
    if (cell === undefined) throw new Error(`no cell for item ${item}, field ${field}`);
    this.pending.set(cell, { value: value ?? "", quiet });
    // With many updates a second, drawing in every frame would take the time that scrolling needs.
    const rest = this.drawn + PAUSE - performance.now();
    this.frame ??= rest > 0 ? window.setTimeout(() => requestAnimationFrame(this.draw), rest) : requestAnimationFrame(this.draw);
  }

  /** Dim the rows while nobody keeps them up to date. */
  setStale(stale: boolean): void {
    this.table.dataset["stale"] = String(stale);
  }

  private readonly draw = (): void => {
    this.frame = undefined;
    this.drawn = performance.now();
    for (const [cell, change] of this.pending) this.show(cell, change);
    this.pending.clear();
  };

  private show({ kind, digits, node }: Cell, { value, quiet }: Change): void {
    const moved = direction(node.dataset["value"] ?? "", value);
    node.dataset["value"] = value;
    node.textContent = digits === undefined ? value : fixed(value, digits);
    if (kind === "change") {
      const sign = direction("0", value);
      if (sign === undefined) delete node.dataset["sign"];
      else node.dataset["sign"] = sign;
    }
    if (moved !== undefined && !quiet && (kind === "price" || kind === "change")) this.flash.start(node, moved);
  }
}

function addCell(row: HTMLTableRowElement, { field, kind, digits }: Column): Cell {
  const node = document.createElement(kind === "name" ? "th" : "td");
  if (kind === "name") node.scope = "row";
  node.dataset["field"] = field;
  row.append(node);
  return { kind, digits, node };
}
