// How the pipeline is doing: one line, and while it starts, the steps of that in plain words.
// Not here: what its queries compute (analytics.ts).
// Read next: docs/pipeline.md, "Running jobs".

import { element } from "../element";

export const QUERY_FIELDS = ["key", "command", "state", "reason", "rows_per_second", "lag_seconds"] as const;

export interface QueryStatus {
  readonly state: string;
  readonly reason: string;
  readonly rate: number;
  readonly lag: number;
}

type Tone = "live" | "wait" | "off";

interface Meaning {
  readonly tone: Tone;
  readonly words: string;
  /** The step under way, by its number; without one, it does not start just now. */
  readonly step?: number;
  /** Whether what was computed is shown: not what an earlier pipeline has left. */
  readonly shows: boolean;
}

/** Milliseconds without a word after which the pipeline is taken for stopped. It speaks every second; a busy machine may take longer. */
const SILENCE = 8000;

const OFF = "The pipeline is off. “penstock demo” starts it if Spark is installed.";

/** What the pipeline says of a query while there is no Spark yet (src/penstock/pipeline/runner.py). */
const SPARK_STARTS = "Spark is starting";

const STEPS = [
  "The pipeline's process starts",
  "Spark starts its Java machine, which takes 10 to 60 seconds",
  "Spark plans the queries, and finds where they stopped last time",
  "The first ten seconds of trades become the first candles",
] as const;

export class PipelineLine {
  private readonly queries = new Map<string, QueryStatus>();
  private heard = performance.now();
  private spoke = false;
  private connected = false;
  private hasResults = false;
  private begun: number | undefined;
  private readonly timer = window.setInterval(() => this.show(), 1000);

  /** `changed` hears whether results are to be shown. */
  constructor(private readonly changed: (shows: boolean) => void) {}

  end(): void {
    window.clearInterval(this.timer);
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

  /** There is a first result. */
  setResults(): void {
    if (this.hasResults) return;
    this.hasResults = true;
    this.show();
  }

  setConnected(connected: boolean): void {
    // Nobody is silent who could not be heard.
    if (connected && !this.connected) this.heard = performance.now();
    this.connected = connected;
    this.show();
  }

  private show(): void {
    const { tone, words, step, shows } = this.meaning();
    if (step === undefined) this.begun = undefined;
    else this.begun ??= performance.now();
    const seconds = this.begun === undefined ? 0 : Math.round((performance.now() - this.begun) / 1000);
    element("pipeline", HTMLElement).dataset["tone"] = tone;
    setText(element("pipeline-words", HTMLElement), words);
    this.showSteps(step, seconds);
    this.changed(shows && this.hasResults);
  }

  private showSteps(step: number | undefined, seconds: number): void {
    const list = element("pipeline-steps", HTMLOListElement);
    list.hidden = step === undefined;
    if (step === undefined) return;
    if (list.children.length === 0) list.append(...STEPS.map(() => document.createElement("li")));
    STEPS.forEach((words, index) => {
      const line = list.children[index] as HTMLLIElement;
      line.dataset["state"] = index < step ? "done" : index === step ? "now" : "next";
      setText(line, index === step ? `${words} (${seconds} s)` : words);
    });
  }

  private meaning(): Meaning {
    if (!this.connected) return { tone: "wait", words: "Waiting for the server…", shows: this.spoke };
    const silent = performance.now() - this.heard > SILENCE;
    const queries = [...this.queries];
    if (!silent && !this.spoke) return { tone: "wait", words: "Looking for the pipeline…", step: 0, shows: false };
    if (queries.length === 0 || (silent && !this.spoke)) return { tone: "off", words: OFF, shows: false };
    const failed = queries.find(([, query]) => query.state === "failed");
    if (failed !== undefined) return { tone: "off", words: `The query ${failed[0]} failed: ${failed[1].reason}`, shows: false };
    if (queries.every(([, query]) => query.state === "stopped")) return { tone: "off", words: "The pipeline has been stopped.", shows: false };
    if (silent) return { tone: "wait", words: "The pipeline is silent, waiting…", shows: true };
    const starting = queries.filter(([, query]) => query.state === "starting");
    if (starting.some(([, query]) => query.reason === SPARK_STARTS)) return { tone: "wait", words: "Spark is starting…", step: 1, shows: false };
    const waiting = starting.find(([, query]) => query.reason !== "");
    if (waiting !== undefined) return { tone: "wait", words: `The query ${waiting[0]} waits: ${waiting[1].reason}`, shows: this.hasResults };
    if (starting.length === queries.length || (starting.length > 0 && !this.hasResults)) {
      return { tone: "wait", words: `The pipeline is starting: ${starting.map(([name]) => name).join(", ")}…`, step: 2, shows: false };
    }
    if (!this.hasResults) return { tone: "wait", words: "The pipeline runs; the first candles are on their way…", step: 3, shows: false };
    if (starting.length > 0) return { tone: "wait", words: `The pipeline is starting: ${starting.map(([name]) => name).join(", ")}…`, shows: true };
    const rate = Math.max(...queries.map(([, query]) => query.rate));
    const lag = Math.max(...queries.filter(([name]) => name !== "history").map(([, query]) => query.lag), 0);
    const count = queries.length === 1 ? "1 query" : `${queries.length} queries`;
    return { tone: "live", words: `${count} running, ${Math.round(rate)} events/s, ${lag.toFixed(1)} s behind`, shows: true };
  }
}

/** Screen readers say what has changed: nothing, if the words are the same. */
function setText(node: HTMLElement, words: string): void {
  if (node.textContent !== words) node.textContent = words;
}
