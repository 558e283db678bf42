// One candle as the pipeline publishes it, and the row of them that a chart shows.
// Not here: drawing (chart.ts), subscribing (analytics.ts).
// Read next: docs/pipeline.md, job candles.

export const CANDLE_FIELDS = ["start", "open", "high", "low", "close", "volume", "vwap", "trades"] as const;
type Field = (typeof CANDLE_FIELDS)[number];

export interface Candle {
  /** Milliseconds since 1970. */
  readonly start: number;
  readonly open: number;
  readonly high: number;
  readonly low: number;
  readonly close: number;
  readonly volume: number;
}

/** A candle out of an item's fields; undefined while one that is needed is missing or no number. */
export function candleOf(value: (field: Field) => string | null): Candle | undefined {
  const number = (field: Field): number => Number(value(field) || "no number");
  const candle = {
    start: Date.parse(value("start") ?? ""),
    open: number("open"),
    high: number("high"),
    low: number("low"),
    close: number("close"),
    volume: number("volume"),
  };
  return Object.values(candle).every(Number.isFinite) ? candle : undefined;
}

/** As many as fit into the chart with room to see each. */
const SHOWN = 40;

/** The latest candles in the order of time. One of the same time replaces the one before: it has grown, or is closed. */
export class Candles {
  private list: Candle[] = [];

  add(candle: Candle): void {
    this.list = [...this.list.filter((other) => other.start !== candle.start), candle]
      .sort((one, other) => one.start - other.start)
      .slice(-SHOWN);
  }

  get all(): readonly Candle[] {
    return this.list;
  }
}
