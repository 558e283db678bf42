// How the pipeline is doing, in one line: what its queries say about themselves once a second.
// Not here: what they compute (analytics.ts).
// Read next: docs/pipeline.md, "Running jobs".

import { element } from "./element";

export const QUERY_FIELDS = ["key", "command", "state", "reason", "rows_per_second", "lag_seconds"] as const;

export interface QueryStatus {
  readonly state: string;
  readonly reason: string;
  readonly rate: number;
  readonly lag: number;
}

type Tone = "live" | "wait" | "off";

/** Milliseconds without a word after which the pipeline is taken for stopped. It speaks every second; a busy machine may take longer. */
const SILENCE = 8000;

const OFF = "The pipeline is off. “penstock demo” starts it if Spark is installed.";

export class PipelineLine {
  private readonly queries = new Map<string, QueryStatus>();
  private heard = performance.now();
  private spoke = false;
  private connected = false;

  constructor(private readonly changed: (live: boolean) => void) {
    window.setInterval(this.show, 1000);
  }

  /** `quiet`: from a snapshot, which may be what a pipeline said before it ended. */
  set(key: string, status: QueryStatus, quiet: boolean): void {
    this.queries.set(key, status);
    if (!quiet) {
      this.heard = performance.now();
      this.spoke = true;
    }
    this.show();
  }

  delete(key: string): void {
    this.queries.delete(key);
    this.show();
  }

  clear(): void {
    this.queries.clear();
    this.show();
  }

  setConnected(connected: boolean): void {
    // Nobody is silent who could not be heard.
    if (connected && !this.connected) this.heard = performance.now();
    this.connected = connected;
    this.show();
  }

  private readonly show = (): void => {
    const [tone, words] = this.meaning();
    element("pipeline", HTMLElement).dataset["tone"] = tone;
    element("pipeline-words", HTMLElement).textContent = words;
    this.changed(tone === "live");
  };

  private meaning(): [Tone, string] {
    if (!this.connected) return ["wait", "Waiting for the server…"];
    const silent = performance.now() - this.heard > SILENCE;
    const queries = [...this.queries];
    if (!silent && !this.spoke) return ["wait", "Looking for the pipeline…"];
    if (queries.length === 0 || (silent && !this.spoke)) return ["off", OFF];
    const failed = queries.find(([, query]) => query.state === "failed");
    if (failed !== undefined) return ["off", `The query ${failed[0]} failed: ${failed[1].reason}`];
    if (queries.every(([, query]) => query.state === "stopped")) return ["off", "The pipeline has been stopped."];
    if (silent) return ["wait", "The pipeline is silent, waiting…"];
    const starting = queries.filter(([, query]) => query.state === "starting").map(([name]) => name);
    if (starting.length > 0) return ["wait", `The pipeline is starting: ${starting.join(", ")}…`];
    const rate = Math.max(...queries.map(([, query]) => query.rate));
    const lag = Math.max(...queries.filter(([name]) => name !== "history").map(([, query]) => query.lag), 0);
    const count = queries.length === 1 ? "1 query" : `${queries.length} queries`;
    return ["live", `${count} running, ${Math.round(rate)} events/s, ${lag.toFixed(1)} s behind`];
  }
}
