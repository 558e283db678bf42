// An item in COMMAND mode as a table on screen: subscribed while it is shown, and not before or after.
// Not here: the table itself (grid.ts), which items there are (tables.ts, sessions.ts).

import { Grid, type GridOptions, type Row } from "./grid";
import type { Stream } from "./stream";

export class LiveTable {
  readonly grid: Grid;

  constructor(
    box: HTMLElement,
    private readonly stream: Stream,
    private readonly item: string,
    private readonly fields: readonly string[],
    options: GridOptions,
  ) {
    this.grid = new Grid(box, options);
  }

  show(): () => void {
    return this.stream.watch({
      mode: "COMMAND",
      item: this.item,
      fields: [...new Set(["key", "command", ...this.fields])],
      cleared: () => this.grid.clear(),
      update: (update) => {
        const key = update.getValue("key") ?? "";
        if (update.getValue("command") === "DELETE") this.grid.remove(key);
        else this.grid.put(key, Object.fromEntries(this.fields.map((field) => [field, update.getValue(field)])) as Row);
      },
    });
  }
}
