// The live log: the latest lines, by level and text. Lines are collected from the login on, whichever tab is shown.
// Not here: the table (grid.ts).

import { showDetails } from "./dialog";
import { clock, formatted, moment } from "./format";
import { Grid } from "./grid";
import { make } from "./make";
import type { Stream } from "./stream";

/** Lines that are kept; beyond it the oldest goes. */
const MOST = 5_000;

const FIELDS = ["TIME_MS", "LEVEL", "LOGGER", "MESSAGE", "CLIENT.IP", "THREAD"];

/** From the least to the most severe. */
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

export class Log {
  private readonly grid: Grid;
  private readonly level = make("select", { "aria-label": "Level" });
  /** Of the next line; the server begins anew with each session. */
  private number = 0;

  constructor(box: HTMLElement, stream: Stream) {
    this.grid = new Grid(box, {
      label: "log lines",
      sort: "number",
      descending: true,
      empty: "No line has been written since you logged in.",
      columns: [
        { field: "TIME_MS", title: "Time", width: "6rem", format: clock, numeric: true, narrow: true },
        { field: "LEVEL", title: "Level", width: "6rem" },
        { field: "LOGGER", title: "Category", width: "minmax(8rem, 0.7fr)" },
        { field: "MESSAGE", title: "Message", width: "minmax(10rem, 3fr)", narrow: true },
        { field: "number", title: "Line", width: "4rem", numeric: true },
      ],
      accepts: (row) => LEVELS.indexOf(row["LEVEL"] ?? "") >= this.level.selectedIndex,
      open: (_key, row) => showDetails("Line of the log", formatted(row, { TIME_MS: moment })),
    });
    for (const level of LEVELS) this.level.add(new Option(`from ${level.toLowerCase()}`, level));
    this.level.addEventListener("change", () => this.grid.look());
    this.grid.tools.prepend(this.level);
    stream.watch({
      mode: "DISTINCT",
      item: "monitor_log_output",
      fields: FIELDS,
      update: (update) => {
        this.number += 1;
        const values = Object.fromEntries(FIELDS.map((field) => [field, update.getValue(field)]));
        this.grid.put(String(this.number), { ...values, number: String(this.number) });
        if (this.grid.size > MOST) this.grid.remove(this.grid.firstKey ?? "");
      },
    });
  }

  show(): void {
    this.grid.look();
  }
}
