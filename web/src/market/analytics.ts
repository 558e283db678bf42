// What the Spark pipeline computes: candles of one stock, the movers, and how the pipeline itself is doing.
// Not here: how each is drawn (chart.ts, movers.ts, pipeline.ts).
// Read next: docs/pipeline.md.

import type { Session } from "../demo/session";
import { element } from "../element";
import { CANDLE_FIELDS, Candles, candleOf, type Candle } from "./candle";
import { Chart } from "./chart";
import { fixed } from "./digits";
import { MOVER_FIELDS, MoversTable } from "./movers";
import { PipelineLine, QUERY_FIELDS } from "./pipeline";
import { ITEMS } from "./stocks";

const SIZE = "10s";

/** The stock to begin with, of those that move most often. */
const FIRST_STOCK = "item2";

export class Analytics {
  private readonly body = element("analytics", HTMLElement);
  private readonly chart = new Chart(element("chart", HTMLElement));
  private readonly movers = new MoversTable(element("movers", HTMLTableElement));
  private readonly line = new PipelineLine((shows) => {
    this.body.hidden = !shows;
  });
  private readonly choice = element("chart-stock", HTMLSelectElement);
  private candles = new Candles();
  private endCandles: () => void = () => undefined;

  constructor(private readonly session: Session) {
    for (const item of ITEMS) this.choice.add(new Option(item, item, item === FIRST_STOCK, item === FIRST_STOCK));
    this.choice.addEventListener("change", () => this.watchCandles(this.choice.value));
    this.watchCandles(FIRST_STOCK);
    this.watchMovers();
    this.watchQueries();
  }

  /** The stocks are known by their items until their names arrive. */
  setName(item: string, name: string | null): void {
    const option = this.choice.options[ITEMS.indexOf(item)];
    if (option !== undefined && name !== null) option.text = name;
  }

  setConnected(connected: boolean): void {
    this.line.setConnected(connected);
  }

  end(): void {
    this.line.end();
  }

  private watchCandles(item: string): void {
    this.endCandles();
    const candles = (this.candles = new Candles());
    this.show();
    const add = (candle: Candle | undefined): void => {
      // An update of the stock before may still be on its way.
      if (candle === undefined || candles !== this.candles) return;
      candles.add(candle);
      this.show();
    };
    const ends = (["DISTINCT", "MERGE"] as const).map((mode) =>
      this.session.watch({
        adapter: "CANDLES",
        mode,
        items: [`${mode === "MERGE" ? "candle" : "candles"}.${SIZE}.${item}`],
        fields: CANDLE_FIELDS,
        update: (update) => add(candleOf((field) => update.getValue(field))),
      }),
    );
    this.endCandles = () => ends.forEach((each) => each.end());
  }

  private watchMovers(): void {
    this.session.watch({
      adapter: "MOVERS",
      mode: "COMMAND",
      items: ["movers"],
      fields: MOVER_FIELDS,
      update: (update) => {
        const text = (field: string): string => update.getValue(field) ?? "";
        if (text("command") === "DELETE") this.movers.delete(text("key"));
        else
          this.movers.set({
            key: text("key"),
            name: text("name") || text("key"),
            price: text("price"),
            change: text("change"),
            side: text("side"),
            rank: Number(text("rank")),
          });
        this.line.setResults();
      },
      cleared: () => this.movers.clear(),
    });
  }

  private watchQueries(): void {
    this.session.watch({
      adapter: "PIPELINE",
      mode: "COMMAND",
      items: ["queries"],
      fields: QUERY_FIELDS,
      update: (update) => {
        const text = (field: string): string => update.getValue(field) ?? "";
        if (text("command") === "DELETE") this.line.delete(text("key"));
        else
          this.line.set(
            text("key"),
            {
              state: text("state"),
              reason: text("reason"),
              rate: Number(text("rows_per_second")),
              lag: Number(text("lag_seconds")),
            },
            update.isSnapshot(),
          );
      },
      cleared: () => this.line.clear(),
    });
  }

  private show(): void {
    const all = this.candles.all;
    this.chart.show(all);
    const last = all.at(-1);
    element("chart-figures", HTMLElement).textContent =
      last === undefined
        ? "none yet"
        : `open ${digits(last.open)}  high ${digits(last.high)}  low ${digits(last.low)}  close ${digits(last.close)}  volume ${last.volume}`;
    if (last !== undefined) this.line.setResults();
  }
}

function digits(price: number): string {
  return fixed(String(price));
}
