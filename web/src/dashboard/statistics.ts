// monitor_statistics as it is now, and the points of the last hour, for whoever draws them.
// Not here: how they are drawn (picture.ts, graphs.ts).
// Read next: docs/monitor.md.

import type { ItemUpdate } from "lightstreamer-client-web/core";
import type { Stream } from "./stream";

/** Milliseconds that are shown. */
export const SPAN = 3_600_000;
/** Points that the server keeps of them. */
const POINTS = 720;

export type Sample = Readonly<Record<string, string | null>>;

export interface Point {
  readonly time: number;
  readonly values: Sample;
}

export class Statistics {
  latest: Sample = {};
  /** The oldest first. */
  points: Point[] = [];
  private readonly listeners = new Set<() => void>();

  constructor(
    stream: Stream,
    private readonly fields: readonly string[],
  ) {
    const all = [...new Set(["TIME_MS", ...fields])];
    stream.watch({ mode: "DISTINCT", item: "monitor_history", fields: all, snapshot: POINTS, update: (update) => this.keep(update) });
    stream.watch({
      mode: "MERGE",
      item: "monitor_statistics",
      fields: all,
      update: (update) => {
        this.latest = this.sample(update);
        this.tell();
      },
    });
  }

  /** Be told of every new sample; returns what ends it. */
  listen(told: () => void): () => void {
    this.listeners.add(told);
    told();
    return () => this.listeners.delete(told);
  }

  private keep(update: ItemUpdate): void {
    const time = Number(update.getValue("TIME_MS"));
    // A server that has been restarted knows nothing of before; a new session is sent what is here already.
    if (this.points.some((point) => point.time === time)) return;
    this.points.push({ time, values: this.sample(update) });
    this.points.sort((one, other) => one.time - other.time);
    this.points = this.points.filter((point) => point.time > Date.now() - SPAN - 60_000);
    if (!update.isSnapshot()) this.tell();
  }

  private sample(update: ItemUpdate): Sample {
    return Object.fromEntries(["TIME_MS", ...this.fields].map((field) => [field, update.getValue(field)]));
  }

  private tell(): void {
    for (const told of this.listeners) told();
  }
}
