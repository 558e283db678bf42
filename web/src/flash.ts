// Marks a cell as just moved, and takes the mark away a moment later.
// Not here: colours and fading (page.css), which also honours prefers-reduced-motion.
// Read next: market/table.ts.

export type Direction = "up" | "down";

/** Milliseconds a mark stays at full colour; the style sheet then fades it. Shorter is missed by the eye, longer smears fast cells. */
const HOLD = 300;

/** Which way a value moved, or undefined when either side is no number or they are equal. */
export function direction(before: string, after: string): Direction | undefined {
  if (before === "" || after === "") return undefined;
  const change = Number(after) - Number(before);
  if (change > 0) return "up";
  return change < 0 ? "down" : undefined;
}

export class Flash {
  // Oldest first: a cell that moves again goes to the end, so one timer for the first entry serves them all.
  private readonly ends = new Map<HTMLElement, number>();
  private timer: number | undefined;

  start(cell: HTMLElement, towards: Direction): void {
    cell.dataset["flash"] = towards;
    this.ends.delete(cell);
    this.ends.set(cell, performance.now() + HOLD);
    this.timer ??= window.setTimeout(this.sweep, HOLD);
  }

  private readonly sweep = (): void => {
    const now = performance.now();
    this.timer = undefined;
    for (const [cell, end] of this.ends) {
      if (end > now) {
        this.timer = window.setTimeout(this.sweep, end - now);
        return;
      }
      delete cell.dataset["flash"];
      this.ends.delete(cell);
    }
  };
}
