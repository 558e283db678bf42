// Graphs of the last hour: a small SVG for each figure, with the values under the pointer or at the cursor keys.
// Not here: where points come from (statistics.ts), colours (dashboard.css).

import { bytes, clock, kbits, millis, number, percent, rate, type Format } from "./format";
import { draw, make, set } from "./make";
import { SPAN, type Point, type Statistics } from "./statistics";

interface Line {
  readonly label: string;
  readonly field: string;
}

interface Plan {
  readonly title: string;
  readonly format: Format;
  readonly lines: readonly Line[];
}

const PLANS: readonly Plan[] = [
  { title: "Sessions", format: number, lines: [{ label: "sessions", field: "CLIENTS.SESSIONS" }, { label: "connections", field: "CLIENTS.CONNECTIONS" }] },
  { title: "Events and updates", format: rate, lines: [{ label: "in", field: "ITEMS.EVENTS_SEC" }, { label: "out", field: "UPDATES.EVENTS_SEC" }] },
  { title: "Bandwidth", format: kbits, lines: [{ label: "in use", field: "BANDWIDTH.CURRENT" }] },
  { title: "Filtered and lost updates", format: rate, lines: [{ label: "filtered", field: "UPDATES.FILTERED_SEC" }, { label: "lost", field: "UPDATES.LOST_SEC" }] },
  { title: "Loop lag", format: millis, lines: [{ label: "p50", field: "LOOP.LAG_P50" }, { label: "p99", field: "LOOP.LAG_P99" }] },
  { title: "Age of data when written", format: millis, lines: [{ label: "p50", field: "AGE.P50" }, { label: "p99", field: "AGE.P99" }] },
  { title: "CPU", format: percent, lines: [{ label: "of one core", field: "CPU.PERCENT" }] },
  { title: "Memory", format: bytes, lines: [{ label: "of the process", field: "MEMORY.RSS" }] },
  { title: "Journal", format: rate, lines: [{ label: "appends", field: "JOURNAL.APPENDS_SEC" }, { label: "syncs", field: "JOURNAL.SYNCS_SEC" }] },
  { title: "Bytes waiting for clients", format: bytes, lines: [{ label: "waiting", field: "WAITING.BYTES" }, { label: "unsent", field: "UNSENT.BYTES" }] },
];

export const GRAPH_FIELDS: readonly string[] = PLANS.flatMap((plan) => plan.lines.map((line) => line.field));

/** Pixels: of a graph, of the strip below it, and of the air above its highest value. */
const HEIGHT = 150;
const TIMES = 20;
const ABOVE = 14;
/** Milliseconds without a point after which a line is broken: the server was away. */
const BREAK = 15_000;
/** Milliseconds on the axis at least, and between two times on it: as many of them as four fit. */
const LEAST_SPAN = 300_000;
const TICKS = [60_000, 300_000, 600_000, 900_000];

export class Graphs {
  private readonly graphs: readonly Graph[];

  constructor(
    box: HTMLElement,
    private readonly statistics: Statistics,
  ) {
    box.classList.add("graphs");
    this.graphs = PLANS.map((plan) => new Graph(box, plan));
  }

  show(): () => void {
    return this.statistics.listen(() => {
      const points = [...this.statistics.points];
      const time = Number(this.statistics.latest["TIME_MS"] ?? 0);
      // What is newer than the latest point that is kept.
      if (time > (points.at(-1)?.time ?? 0)) points.push({ time, values: this.statistics.latest });
      for (const graph of this.graphs) graph.show(points);
    });
  }
}

class Graph {
  private readonly svg = draw("svg", { role: "img", tabindex: 0 });
  private readonly legend = make("figcaption");
  private readonly figures = new Map<string, HTMLElement>();
  private readonly time = make("span", { class: "at" });
  private readonly cursor = draw("line", { class: "cursor", y1: ABOVE, y2: HEIGHT - TIMES });
  private points: readonly Point[] = [];
  private width = 0;
  private until = 0;
  /** Milliseconds on the axis: a server that has just started has no hour behind it. */
  private span = SPAN;
  /** The point that somebody looks at; undefined: the latest. */
  private at: number | undefined;

  constructor(
    box: HTMLElement,
    private readonly plan: Plan,
  ) {
    const figure = make("figure", { class: "sheet graph", "data-graph": plan.title }, this.legend, this.svg);
    this.legend.append(make("strong", {}, plan.title));
    plan.lines.forEach((line, index) => {
      const value = make("b", { "data-field": line.field });
      this.figures.set(line.field, value);
      this.legend.append(make("span", { class: `line line-${index}` }, `${line.label} `, value));
    });
    this.legend.append(this.time);
    this.svg.setAttribute("aria-label", `${plan.title}, the last hour`);
    box.append(figure);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.look(undefined));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("blur", () => this.look(undefined));
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  show(points: readonly Point[]): void {
    // Whoever looks at a point looks at the same one when others come.
    const looked = this.at === undefined ? undefined : this.points[this.at]?.time;
    this.points = points;
    if (looked !== undefined) this.at = points.findIndex((point) => point.time === looked);
    this.draw();
  }

  private draw(): void {
    this.width = this.svg.clientWidth;
    if (this.width === 0) return;
    this.until = Math.max(this.points.at(-1)?.time ?? 0, Date.now() - SPAN);
    this.span = Math.min(SPAN, Math.max(LEAST_SPAN, this.until - (this.points[0]?.time ?? this.until)));
    const pace = TICKS.find((each) => this.span / each <= 5) ?? SPAN;
    const most = Math.max(1, ...this.plan.lines.flatMap((line) => this.points.map((point) => value(point, line.field))));
    const y = (figure: number): number => HEIGHT - TIMES - (figure / most) * (HEIGHT - TIMES - ABOVE);
    const nodes: SVGElement[] = [];
    for (const part of [0, 0.5, 1]) nodes.push(draw("line", { class: "rule", x1: 0, x2: this.width, y1: y(most * part), y2: y(most * part) }));
    nodes.push(draw("text", { class: "most", x: 2, y: ABOVE - 3 }, this.plan.format(String(most))));
    for (let tick = Math.ceil((this.until - this.span) / pace) * pace; tick < this.until; tick += pace) {
      const x = this.x(tick);
      if (x > 30 && x < this.width - 30) nodes.push(draw("text", { class: "tick", x, y: HEIGHT - 4 }, clock(String(tick)).slice(0, 5)));
    }
    this.plan.lines.forEach((line, index) => nodes.push(draw("path", { class: `curve line-${index}`, d: this.curve(line.field, y) })));
    set(this.svg, { viewBox: `0 0 ${this.width} ${HEIGHT}`, height: HEIGHT, "data-points": String(this.points.length) });
    this.svg.replaceChildren(...nodes, this.cursor);
    this.tell();
  }

  private x(time: number): number {
    return this.width * (1 - (this.until - time) / this.span);
  }

  private curve(field: string, y: (figure: number) => number): string {
    let before = -Infinity;
    return this.points
      .map((point) => {
        const verb = point.time - before > BREAK ? "M" : "L";
        before = point.time;
        return `${verb}${this.x(point.time).toFixed(1)} ${y(value(point, field)).toFixed(1)}`;
      })
      .join("");
  }

  private point(event: PointerEvent): void {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const time = this.until - this.span * (1 - x / this.width);
    let nearest: number | undefined;
    this.points.forEach((point, index) => {
      const best = nearest === undefined ? undefined : this.points[nearest];
      if (best === undefined || Math.abs(point.time - time) < Math.abs(best.time - time)) nearest = index;
    });
    this.look(nearest);
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || this.points.length === 0) return;
    event.preventDefault();
    this.look(Math.min(this.points.length - 1, Math.max(0, (this.at ?? this.points.length - 1) + step)));
  }

  private look(at: number | undefined): void {
    this.at = at;
    this.tell();
  }

  /** The values at the point that is looked at, or the latest. */
  private tell(): void {
    const point = this.at === undefined || this.at < 0 ? this.points.at(-1) : this.points[this.at];
    for (const [field, node] of this.figures) node.textContent = this.plan.format(point?.values[field] ?? null);
    const looked = this.at !== undefined && this.at >= 0 && point !== undefined;
    this.time.textContent = looked ? `at ${clock(String(point.time))}` : "";
    const x = looked ? this.x(point.time) : -1;
    set(this.cursor, { x1: x, x2: x });
  }
}

function value(point: Point, field: string): number {
  const found = Number(point.values[field] ?? 0);
  return Number.isFinite(found) ? found : 0;
}
