// The server as a picture: where data comes from, what it goes through and where it goes, with live figures.
// Not here: where figures come from (statistics.ts), colours (dashboard.css).
// Read next: docs/architecture.md, whose picture this is.

import { bytes, kbits, millis, number, percent, rate, type Format } from "./format";
import { draw, set } from "./make";
import type { Sample, Statistics } from "./statistics";

interface Figure {
  readonly label: string;
  readonly field: string;
  readonly format: Format;
}

interface Part {
  readonly id: string;
  readonly title: string;
  readonly figures: readonly Figure[];
  /** A field that is other than 0 when something is wrong here. */
  readonly trouble?: string;
  /** Column and row where there is room, and row where there is not. */
  readonly place: readonly [number, number];
  readonly narrow: number;
}

const f = (label: string, field: string, format: Format): Figure => ({ label, field, format });

const PARTS: readonly Part[] = [
  {
    id: "feeds",
    title: "Feeds",
    place: [0, 0],
    narrow: 0,
    trouble: "ADAPTERS.FAILED",
    figures: [
      f("events in", "ITEMS.EVENTS_SEC", rate),
      f("adapter calls", "ADAPTERS.CALLS_SEC", rate),
      f("calls waiting", "POOL.QUEUE", number),
      f("in trouble", "ADAPTERS.FAILED", number),
    ],
  },
  {
    id: "kernel",
    title: "Kernel",
    place: [1, 0],
    narrow: 1,
    figures: [
      f("items", "ITEMS.TOTAL", number),
      f("subscribed", "CLIENTS.ITEM_SUBSCR", number),
      f("loop lag p99", "LOOP.LAG_P99", millis),
      f("CPU", "CPU.PERCENT", percent),
      f("memory", "MEMORY.RSS", bytes),
    ],
  },
  {
    id: "doors",
    title: "Doors",
    place: [2, 0],
    narrow: 2,
    figures: [
      f("sessions", "CLIENTS.SESSIONS", number),
      f("updates out", "UPDATES.EVENTS_SEC", rate),
      f("bandwidth", "BANDWIDTH.CURRENT", kbits),
      f("age p99", "AGE.P99", millis),
      f("lost", "UPDATES.LOST_SEC", rate),
    ],
  },
  {
    id: "journal",
    title: "Journal",
    place: [1, 1],
    narrow: 3,
    trouble: "JOURNAL.FAILED",
    figures: [
      f("appends", "JOURNAL.APPENDS_SEC", rate),
      f("syncs", "JOURNAL.SYNCS_SEC", rate),
      f("sync p99", "JOURNAL.SYNC_P99", millis),
      f("size", "JOURNAL.BYTES", bytes),
    ],
  },
  {
    id: "pipeline",
    title: "Pipeline",
    place: [0, 1],
    narrow: 4,
    figures: [f("queries", "PIPELINE.QUERIES", number), f("lag", "PIPELINE.LAG", millis)],
  },
  {
    id: "peers",
    title: "Twins and TLEX",
    place: [2, 1],
    narrow: 5,
    figures: [
      f("Ditto commands", "DITTO.COMMANDS_SEC", rate),
      f("Ditto streams", "DITTO.STREAMS", number),
      f("TLEX sessions", "TLEX.SESSIONS", number),
      f("TLEX payloads", "TLEX.PAYLOADS_SEC", rate),
    ],
  },
];

/** What flows between two parts, and the field that says how much. */
const FLOWS: readonly (readonly [string, string, string])[] = [
  ["feeds", "kernel", "ITEMS.EVENTS_SEC"],
  ["kernel", "doors", "UPDATES.EVENTS_SEC"],
  ["kernel", "journal", "JOURNAL.APPENDS_SEC"],
  ["journal", "pipeline", "PIPELINE.QUERIES"],
  ["pipeline", "feeds", "PIPELINE.QUERIES"],
  ["peers", "journal", "DITTO.EVENTS_SEC"],
];

export const PICTURE_FIELDS: readonly string[] = [
  ...PARTS.flatMap((part) => [...part.figures.map((figure) => figure.field), ...(part.trouble === undefined ? [] : [part.trouble])]),
  ...FLOWS.map(([, , field]) => field),
];

/** Pixels: a part, and the gap between two where the arrows are. */
const WIDE = 250;
const HIGH = 172;
const GAP = 60;
const LINE = 24;
const NARROW = "(max-width: 45rem)";

interface Box {
  readonly left: number;
  readonly top: number;
}

export class Picture {
  private readonly svg = draw("svg", { role: "img", "aria-label": "The server: feeds, kernel, doors, journal and pipeline, with live figures" });
  private readonly values = new Map<string, SVGTextElement[]>();

  constructor(
    box: HTMLElement,
    private readonly statistics: Statistics,
  ) {
    box.append(this.svg);
    const narrow = matchMedia(NARROW);
    narrow.addEventListener("change", () => this.arrange(narrow.matches));
    this.arrange(narrow.matches);
  }

  show(): () => void {
    return this.statistics.listen(() => this.update(this.statistics.latest));
  }

  private arrange(narrow: boolean): void {
    const places = new Map<string, Box>(
      PARTS.map((part) => [
        part.id,
        narrow ? { left: 0, top: part.narrow * (HIGH + GAP / 2) } : { left: part.place[0] * (WIDE + GAP), top: part.place[1] * (HIGH + GAP) },
      ]),
    );
    const width = narrow ? WIDE + GAP : 3 * WIDE + 2 * GAP;
    const height = narrow ? PARTS.length * (HIGH + GAP / 2) : 2 * HIGH + GAP;
    set(this.svg, { viewBox: `-4 -4 ${width + 8} ${height + 8}`, "data-narrow": String(narrow) });
    const head = draw("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto-start-reverse" }, draw("path", { d: "M0 0 L8 4 L0 8 Z" }));
    this.values.clear();
    this.svg.replaceChildren(
      draw("defs", {}, head),
      ...FLOWS.map(([from, to, field]) =>
        draw("path", { class: "flow", d: way(places.get(from)!, places.get(to)!, narrow), "data-flow": field, "data-name": `${from}-${to}`, "marker-end": "url(#arrow)" }),
      ),
      ...PARTS.map((part) => this.part(part, places.get(part.id)!)),
    );
    this.update(this.statistics.latest);
  }

  private part(part: Part, { left, top }: Box): SVGElement {
    const group = draw("g", { class: "part", "data-part": part.id, transform: `translate(${left} ${top})` });
    group.append(draw("rect", { width: WIDE, height: HIGH, rx: 10 }), draw("text", { class: "title", x: 16, y: 30 }, part.title));
    part.figures.forEach((figure, index) => {
      const y = 58 + index * LINE;
      const value = draw("text", { class: "value", x: WIDE - 16, y, "data-field": figure.field });
      this.values.set(figure.field, [...(this.values.get(figure.field) ?? []), value]);
      group.append(draw("text", { class: "label", x: 16, y }, figure.label), value);
    });
    return group;
  }

  private update(sample: Sample): void {
    for (const part of PARTS) {
      for (const figure of part.figures) {
        for (const node of this.values.get(figure.field) ?? []) node.textContent = figure.format(sample[figure.field] ?? null);
      }
      if (part.trouble !== undefined) {
        this.svg.querySelector(`[data-part=${part.id}]`)?.setAttribute("data-trouble", String(Number(sample[part.trouble] ?? 0) > 0));
      }
    }
    for (const flow of this.svg.querySelectorAll<SVGElement>("[data-flow]")) {
      flow.dataset["moves"] = String(Number(sample[flow.dataset["flow"] ?? ""] ?? 0) > 0);
    }
  }
}

/** From the middle of a side of one part to that of another. */
function way(from: Box, to: Box, narrow: boolean): string {
  const middle = WIDE / 2;
  if (narrow && Math.abs(to.top - from.top) > HIGH + GAP) {
    // Around the parts between them, on the right.
    const out = WIDE + GAP * (to.top > from.top ? 0.4 : 0.75);
    return `M${WIDE} ${from.top + HIGH / 2} H${out} V${to.top + HIGH / 2} H${WIDE}`;
  }
  if (to.left !== from.left) {
    const y = from.top + HIGH / 2;
    return to.left > from.left ? `M${from.left + WIDE} ${y} H${to.left}` : `M${from.left} ${y} H${to.left + WIDE}`;
  }
  const x = from.left + middle;
  return to.top > from.top ? `M${x} ${from.top + HIGH} V${to.top}` : `M${x} ${from.top} V${to.top + HIGH}`;
}
