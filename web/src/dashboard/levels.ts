// The categories of the log, each with the level from which on it is written, and setting one.
// Not here: the lines of the log (log.ts).

import type { Api } from "./api";
import { askFirst } from "./dialog";
import { Grid } from "./grid";
import { make } from "./make";

/** What the server takes, and what is shown of it; the empty one is null, which resets. */
const CHOICES = { debug: "debug", info: "info", warning: "warning", error: "error", "": "as configured" };

export class Levels {
  private readonly grid: Grid;

  constructor(
    box: HTMLElement,
    private readonly api: Api,
  ) {
    const part = make("section", { class: "half", "data-table": "levels" }, make("h2", {}, "levels of the log"));
    box.append(part);
    const { role } = api;
    this.grid = new Grid(part, {
      label: "categories of the log",
      sort: "category",
      empty: "No categories have come yet.",
      columns: [
        { field: "category", title: "Category", width: "minmax(10rem, 3fr)", narrow: true },
        { field: "level", title: "Level", width: "minmax(5rem, 1fr)", narrow: true },
      ],
      ...(role === "admin" ? { open: (category: string, row): void => this.ask(category, row["level"] ?? "info") } : {}),
    });
  }

  show(): () => void {
    this.api.ask("GET", "/levels").then(
      (found) => this.fill(found),
      () => undefined,
    );
    return () => undefined;
  }

  private ask(category: string, value: string): void {
    askFirst({
      title: `Set the level of ${category}?`,
      text: `Lines of ${category}, and of what is below it, are written from this level on, until it is reset or the server is restarted.`,
      verb: "Set level",
      fields: [{ name: "level", label: "Level", kind: "choice", choices: CHOICES, value }],
      run: async ({ level = "" }) => this.fill(await this.api.ask("PUT", "/levels", { category, level: level === "" ? null : level })),
    });
  }

  private fill(found: unknown): void {
    for (const [category, level] of Object.entries(found as Readonly<Record<string, string>>)) this.grid.put(category, { category, level });
  }
}
