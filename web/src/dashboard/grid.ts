// A table of any length: search, sort, and only as many rows in the document as can be seen.
// Not here: where rows come from and what can be done with one (sessions.ts, tables.ts, log.ts).
// Read next: dashboard.css, which has the height of a row.

import { words, type Format } from "./format";
import { make, set } from "./make";

/** Pixels; `--row` of dashboard.css is the same. */
const ROW = 36;
/** Rows above and below those that can be seen, so that scrolling shows no gap. */
const BEYOND = 6;
/** Milliseconds between two looks at changed rows: sorting ten thousand takes some of them. */
const PAUSE = 400;
const NARROW = "(max-width: 45rem)";

export type Row = Readonly<Record<string, string | null>>;

export interface Column {
  readonly field: string;
  readonly title: string;
  /** A track of a CSS grid, such as `8rem` or `minmax(6rem, 1fr)`. */
  readonly width: string;
  readonly format?: Format;
  readonly numeric?: boolean;
  /** Whether narrow screens have it; all values are in the details of a row. */
  readonly narrow?: boolean;
}

export interface GridOptions {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly sort: string;
  readonly descending?: boolean;
  readonly empty: string;
  open?(key: string, row: Row): void;
  /** Of rows that match the search: whether to show them. */
  accepts?(row: Row): boolean;
}

interface Entry {
  readonly key: string;
  row: Row;
  /** All values in lower case, to be searched; made when it is needed. */
  text: string | undefined;
}

interface Line {
  readonly node: HTMLElement;
  readonly cells: readonly HTMLElement[];
}

export class Grid {
  private readonly entries = new Map<string, Entry>();
  private shown: Entry[] = [];
  private readonly lines: Line[] = [];
  private readonly search = make("input", { type: "search", placeholder: "Search", autocomplete: "off" });
  private readonly count = make("output", { class: "count" });
  private readonly head = make("div", { class: "grid-head", role: "row" });
  private readonly body = make("div", { class: "grid-body", role: "rowgroup" });
  private readonly view: HTMLElement;
  private readonly nothing: HTMLElement;
  readonly tools = make("div", { class: "tools" });
  private columns: readonly Column[] = [];
  private sort: string;
  private descending: boolean;
  private selected: string | undefined;
  private timer: number | undefined;
  private frame: number | undefined;
  private looked = 0;

  constructor(
    box: HTMLElement,
    private readonly options: GridOptions,
  ) {
    this.sort = options.sort;
    this.descending = options.descending ?? false;
    this.search.setAttribute("aria-label", `Search ${options.label}`);
    this.view = make("div", { class: "grid", role: "grid", tabindex: 0, "aria-label": options.label }, this.head, this.body);
    this.nothing = make("p", { class: "nothing" }, options.empty);
    this.tools.append(this.search, this.count);
    box.append(this.tools, this.view, this.nothing);
    this.search.addEventListener("input", () => this.look());
    this.view.addEventListener("scroll", () => this.ask(), { passive: true });
    this.view.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    const narrow = matchMedia(NARROW);
    narrow.addEventListener("change", () => this.arrange(narrow.matches));
    this.arrange(narrow.matches);
    new ResizeObserver(() => this.look()).observe(box);
  }

  /** A row that is new, or has other values: those that are not named stay. */
  put(key: string, changes: Row): void {
    const entry = this.entries.get(key);
    if (entry === undefined) this.entries.set(key, { key, row: changes, text: undefined });
    else {
      entry.row = { ...entry.row, ...changes };
      entry.text = undefined;
    }
    this.later();
  }

  remove(key: string): void {
    this.entries.delete(key);
    this.later();
  }

  clear(): void {
    this.entries.clear();
    this.later();
  }

  get size(): number {
    return this.entries.size;
  }

  keys(): readonly string[] {
    return [...this.entries.keys()];
  }

  get firstKey(): string | undefined {
    return this.entries.keys().next().value;
  }

  /** Look at all rows again, because what `accepts` says has changed. */
  look(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    // Not on screen: it is looked at again when it is, because its size changes then.
    if (this.tools.offsetParent === null) return;
    this.looked = performance.now();
    const wanted = this.search.value.trim().toLowerCase();
    const { accepts } = this.options;
    this.shown = [...this.entries.values()].filter((entry) => matches(entry, wanted) && (accepts === undefined || accepts(entry.row)));
    this.shown.sort(this.order());
    this.count.textContent =
      this.shown.length === this.entries.size ? this.entries.size.toLocaleString("en") : `${this.shown.length.toLocaleString("en")} of ${this.entries.size.toLocaleString("en")}`;
    this.count.dataset["rows"] = String(this.shown.length);
    this.nothing.hidden = this.entries.size > 0;
    this.view.hidden = this.entries.size === 0;
    this.view.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.body.style.height = `${this.shown.length * ROW}px`;
    this.ask();
  }

  private later(): void {
    if (this.timer !== undefined) return;
    // The first rows at once; then not more often than they can be read.
    const wait = Math.max(0, PAUSE - (performance.now() - this.looked));
    this.timer = setTimeout(() => this.look(), wait);
  }

  private ask(): void {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  private order(): (one: Entry, other: Entry) => number {
    const column = this.options.columns.find((each) => each.field === this.sort);
    const sign = this.descending ? -1 : 1;
    const { sort } = this;
    if (column?.numeric) return (one, other) => sign * compare(size(one.row[sort]), size(other.row[sort])) || compare(one.key, other.key);
    return (one, other) => sign * compare(one.row[sort] ?? "", other.row[sort] ?? "") || compare(one.key, other.key);
  }

  private draw(): void {
    this.frame = undefined;
    const first = Math.max(0, Math.floor(this.view.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.shown.length, Math.ceil((this.view.scrollTop + this.view.clientHeight) / ROW) + BEYOND);
    const needed = Math.max(0, last - first);
    while (this.lines.length < needed) this.lines.push(this.line());
    this.lines.forEach((line, place) => {
      const entry = place < needed ? this.shown[first + place] : undefined;
      line.node.hidden = entry === undefined;
      if (entry !== undefined) this.fill(line, entry, first + place);
    });
    set(this.view, { "aria-activedescendant": this.lines.find((line) => !line.node.hidden && line.node.dataset["key"] === this.selected)?.node.id ?? false });
  }

  private line(): Line {
    const node = make("div", { class: "grid-row", role: "row", id: `row-${(rowNumber += 1)}` });
    const cells = this.columns.map((column) => make("div", { role: "gridcell", class: column.numeric ? "figure" : "words", "data-field": column.field }));
    node.append(...cells);
    this.body.append(node);
    return { node, cells };
  }

  private fill({ node, cells }: Line, entry: Entry, place: number): void {
    node.dataset["key"] = entry.key;
    node.style.transform = `translateY(${place * ROW}px)`;
    set(node, { "aria-rowindex": place + 2, "aria-selected": String(entry.key === this.selected) });
    this.columns.forEach((column, index) => {
      const cell = cells[index];
      if (cell === undefined) return;
      const value = entry.row[column.field] ?? null;
      const text = (column.format ?? words)(value);
      if (cell.textContent !== text) cell.textContent = text;
      cell.dataset["value"] = value ?? "";
    });
  }

  /** The columns that this screen has room for. */
  private arrange(narrow: boolean): void {
    this.columns = this.options.columns.filter((column) => !narrow || column.narrow);
    this.view.style.setProperty("--columns", this.columns.map((column) => (narrow ? `minmax(0, ${column.numeric ? 3 : 5}fr)` : column.width)).join(" "));
    this.lines.length = 0;
    this.body.replaceChildren();
    this.head.replaceChildren(...this.columns.map((column) => this.title(column)));
    this.ask();
  }

  private title(column: Column): HTMLElement {
    const button = make("button", { type: "button" }, column.title);
    const cell = make("div", { role: "columnheader", class: column.numeric ? "figure" : "words", "data-field": column.field }, button);
    button.addEventListener("click", () => {
      // Figures begin with the largest, names with the first.
      this.descending = this.sort === column.field ? !this.descending : (column.numeric ?? false);
      this.sort = column.field;
      for (const other of this.head.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      this.look();
    });
    if (column.field === this.sort) cell.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
    return cell;
  }

  // -- one row ------------------------------------------------------------------------------------------------------

  private click(event: MouseEvent): void {
    const node = event.target instanceof Element ? event.target.closest<HTMLElement>(".grid-row") : null;
    const key = node?.dataset["key"];
    if (key === undefined) return;
    this.selected = key;
    this.ask();
    this.open();
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.view) return;
    const page = Math.max(1, Math.floor(this.view.clientHeight / ROW) - 2);
    const at = this.shown.findIndex((entry) => entry.key === this.selected);
    const places: Readonly<Record<string, number>> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: this.shown.length - 1,
    };
    const wanted = places[event.key];
    if (wanted !== undefined && this.shown.length > 0) {
      event.preventDefault();
      const place = Math.min(this.shown.length - 1, Math.max(0, wanted));
      this.selected = this.shown[place]?.key;
      this.reveal(place);
      this.ask();
    } else if (event.key === "Enter") this.open();
  }

  private reveal(place: number): void {
    const room = this.view.clientHeight - this.head.offsetHeight;
    const top = place * ROW;
    if (top < this.view.scrollTop) this.view.scrollTop = top;
    else if (top + ROW > this.view.scrollTop + room) this.view.scrollTop = top + ROW - room;
  }

  private open(): void {
    const entry = this.selected === undefined ? undefined : this.entries.get(this.selected);
    if (entry !== undefined) this.options.open?.(entry.key, entry.row);
  }
}

let rowNumber = 0;

function matches(entry: Entry, wanted: string): boolean {
  if (wanted === "") return true;
  entry.text ??= [entry.key, ...Object.values(entry.row)].join("\n").toLowerCase();
  return entry.text.includes(wanted);
}

function size(value: string | null | undefined): number {
  const found = value === null || value === undefined || value === "" ? NaN : Number(value);
  return Number.isNaN(found) ? -Infinity : found;
}

/** Figures neither by subtraction: both may be without a value. */
function compare<V extends string | number>(one: V, other: V): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
