// The map of the town: streets, a river, and at each intersection a signal for every approach. Drawn by us, as SVG.
// Not here: where the signals come from (traffic.ts), colours (demo.css).
// Read next: traffic.ts.

const SVG = "http://www.w3.org/2000/svg";

/** Of the picture. */
const WIDTH = 900;
const HEIGHT = 520;

/** From the middle of an intersection to its signals, and the size of these. */
const ARM = 30;
const LAMP = 8.5;

const APPROACHES = { N: [0, -1], E: [1, 0], S: [0, 1], W: [-1, 0] } as const;
export type Approach = keyof typeof APPROACHES;

export interface Signal {
  readonly signal: string;
  readonly left: number;
}

/** What a controller sends. */
export interface Report {
  readonly name: string;
  readonly x: number;
  readonly y: number;
  readonly signals: Readonly<Partial<Record<Approach, Signal>>>;
}

interface Place {
  readonly group: SVGElement;
  readonly lamps: Readonly<Record<Approach, SVGElement>>;
  readonly left: SVGElement;
}

export class TownMap {
  private readonly places = new Map<string, Place>();
  private readonly streets = node("g", { class: "streets" });
  private readonly columns = new Set<number>();
  private readonly rows = new Set<number>();

  constructor(private readonly svg: SVGElement) {
    svg.append(
      node("path", { class: "river", d: "M-20 470C120 440 170 300 300 262S420 330 560 268 720 120 920 90" }),
      this.streets,
    );
  }

  show(id: string, report: Report): void {
    const place = this.places.get(id) ?? this.add(id, report);
    for (const approach of Object.keys(APPROACHES) as Approach[]) {
      place.lamps[approach].setAttribute("data-signal", report.signals[approach]?.signal ?? "dark");
    }
    // The time until the signal of those who wait, or go, changes.
    const [north, east] = [report.signals.N, report.signals.E];
    const next = north?.signal === "red" ? east : north;
    place.left.textContent = next === undefined ? "" : String(Math.ceil(next.left));
    place.group.setAttribute("aria-label", `${report.name}: north and south ${north?.signal ?? "dark"}, east and west ${east?.signal ?? "dark"}`);
  }

  /** Its controller is not connected. */
  darken(id: string): void {
    const place = this.places.get(id);
    if (place === undefined) return;
    for (const lamp of Object.values(place.lamps)) lamp.setAttribute("data-signal", "dark");
    place.left.textContent = "";
  }

  private add(id: string, report: Report): Place {
    const [x, y] = [report.x * WIDTH, report.y * HEIGHT];
    this.street(this.columns, x, { x1: x, x2: x, y1: 0, y2: HEIGHT });
    this.street(this.rows, y, { x1: 0, x2: WIDTH, y1: y, y2: y });
    const group = node("g", { class: "crossing", role: "img", "data-controller": id, transform: `translate(${x} ${y})` });
    const lamps = {} as Record<Approach, SVGElement>;
    group.append(node("rect", { class: "plate", x: -ARM - 14, y: -ARM - 14, width: 2 * ARM + 28, height: 2 * ARM + 28, rx: 16 }));
    for (const [approach, [across, down]] of Object.entries(APPROACHES) as [Approach, readonly [number, number]][]) {
      lamps[approach] = node("circle", { class: "lamp", cx: across * ARM, cy: down * ARM, r: LAMP, "data-approach": approach });
      group.append(lamps[approach]);
    }
    const left = node("text", { class: "left", y: 5 });
    const name = node("text", { class: "street-name", y: ARM + 36 });
    name.textContent = report.name;
    group.append(left, name);
    this.svg.append(group);
    const place = { group, lamps, left };
    this.places.set(id, place);
    return place;
  }

  /** Once for all intersections on it. */
  private street(known: Set<number>, at: number, ends: Readonly<Record<string, number>>): void {
    if (known.has(at)) return;
    known.add(at);
    this.streets.append(node("line", ends));
  }
}

function node(name: string, attributes: Readonly<Record<string, string | number>>): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}
