// The tab Traffic lights: the controllers of the hub's domain `demo`, each with its payloads and its figures.
// Not here: the map (map.ts).
// Read next: docs/tlex.md, "Watching the hub".

import type { Session, Watched } from "../demo/session";
import type { Shell, Source } from "../demo/tab";
import { element } from "../element";
import { TownMap, type Approach, type Report, type Signal } from "./map";
import markup from "./traffic.html?raw";

export const sources: readonly Source[] = [
  { name: "traffic.ts", load: () => import("./traffic.ts?raw") },
  { name: "map.ts", load: () => import("./map.ts?raw") },
  { name: "intersection.py (controller)", load: () => import("../../../src/penstock/devices/intersection.py?raw") },
  { name: "controllers.py (controller)", load: () => import("../../../src/penstock/devices/controllers.py?raw") },
];

const ADAPTER = "LIGHTS";
const DOMAIN = "demo";

const COLUMNS = ["name", "rate", "age", "latency", "clock"] as const;
type Column = (typeof COLUMNS)[number];

const NOT_THERE = "This server has no traffic lights. “penstock demo” starts them, if the extra tlex is installed.";

/** A controller that is connected. */
class Controller {
  readonly row = document.createElement("tr");
  private readonly cells: Record<Column, HTMLElement>;
  private readonly watched: readonly Watched[];

  constructor(
    readonly id: string,
    session: Session,
    private readonly reported: (id: string, report: Report, text: string) => void,
  ) {
    this.row.dataset["controller"] = id;
    this.cells = {} as Record<Column, HTMLElement>;
    for (const column of COLUMNS) {
      const cell = document.createElement(column === "name" ? "th" : "td");
      if (column === "name") {
        (cell as HTMLTableCellElement).scope = "row";
        cell.className = "name";
        cell.textContent = id;
      }
      cell.dataset["figure"] = column;
      this.cells[column] = cell;
      this.row.append(cell);
    }
    this.watched = [
      session.watch({
        adapter: ADAPTER,
        mode: "DISTINCT",
        items: [`payloads/${DOMAIN}/${id}`],
        fields: ["origin", "payload"],
        snapshot: "1",
        update: (update) => this.take(update.getValue("origin"), update.getValue("payload"), update.isSnapshot()),
      }),
      session.watch({
        adapter: ADAPTER,
        mode: "MERGE",
        items: [`controller/${DOMAIN}/${id}`],
        fields: ["rate", "latency", "clock_difference"],
        update: (update) => {
          this.cells.rate.textContent = `${update.getValue("rate") ?? "–"}/s`;
          this.cells.latency.textContent = milliseconds(update.getValue("latency"));
          this.cells.clock.textContent = milliseconds(update.getValue("clock_difference"));
        },
      }),
    ];
  }

  end(): void {
    for (const each of this.watched) each.end();
    this.row.remove();
  }

  private take(origin: string | null, payload: string | null, old: boolean): void {
    const text = decoded(payload ?? "");
    const report = reportOf(text);
    // Anybody with a token of this domain may send anything.
    if (report === undefined) return;
    this.cells.name.textContent = report.name;
    if (!old) this.cells.age.textContent = milliseconds(String(Math.max(0, Date.now() - Number(origin))));
    this.reported(this.id, report, text);
  }
}

export function open(view: HTMLElement, shell: Shell): () => void {
  view.innerHTML = markup;
  const session = shell.session("WELCOME");
  const map = new TownMap(document.getElementById("map") as unknown as SVGElement);
  const rows = element("controllers", HTMLTableElement).tBodies[0] as HTMLTableSectionElement;
  const payload = element("payload", HTMLElement);
  const controllers = new Map<string, Controller>();
  // Of each session its controllers.
  const sessions = new Map<string, readonly string[]>();
  // At most once a frame, however many come.
  const pending = new Map<string, Report>();
  let last = "";
  let frame: number | undefined;

  const draw = (): void => {
    frame = undefined;
    for (const [id, report] of pending) map.show(id, report);
    pending.clear();
    payload.textContent = last;
  };

  function reported(id: string, report: Report, text: string): void {
    pending.set(id, report);
    last = `${id}  ${text}`;
    frame ??= requestAnimationFrame(draw);
  }

  function settle(): void {
    const wanted = new Set([...sessions.values()].flat());
    for (const [id, controller] of controllers) {
      if (wanted.has(id)) continue;
      controller.end();
      controllers.delete(id);
      pending.delete(id);
      map.darken(id);
    }
    for (const id of [...wanted].sort()) {
      if (controllers.has(id)) continue;
      const controller = new Controller(id, session, reported);
      controllers.set(id, controller);
      const after = [...rows.rows].find((row) => (row.dataset["controller"] ?? "") > id);
      rows.insertBefore(controller.row, after ?? null);
    }
  }

  session.watch({
    adapter: ADAPTER,
    mode: "COMMAND",
    items: [`sessions/${DOMAIN}`],
    fields: ["key", "command", "type", "identifiers"],
    update(update) {
      const key = update.getValue("key") ?? "";
      if (update.getValue("command") === "DELETE") sessions.delete(key);
      else if (update.getValue("type") === "TLC") sessions.set(key, (update.getValue("identifiers") ?? "").split(" ").filter(Boolean));
      settle();
    },
    cleared() {
      sessions.clear();
      settle();
    },
    refused() {
      const notice = element("traffic-notice", HTMLElement);
      notice.textContent = NOT_THERE;
      notice.hidden = false;
    },
  });
  return () => {
    if (frame !== undefined) cancelAnimationFrame(frame);
  };
}

function milliseconds(value: string | null): string {
  return value === null ? "–" : `${value} ms`;
}

/** From base64 to text. */
function decoded(payload: string): string {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(payload), (letter) => letter.charCodeAt(0)));
  } catch {
    return "";
  }
}

/** What a payload says, if it is one of ours; undefined for anything else. */
function reportOf(text: string): Report | undefined {
  try {
    const found = JSON.parse(text) as Partial<Report>;
    const known = typeof found.name === "string" && Number.isFinite(found.x) && Number.isFinite(found.y) && typeof found.signals === "object";
    if (!known || found.signals === null) return undefined;
    const signals: Partial<Record<Approach, Signal>> = {};
    for (const approach of ["N", "E", "S", "W"] as const) {
      const signal = found.signals?.[approach];
      if (typeof signal?.signal === "string" && Number.isFinite(signal.left)) signals[approach] = signal;
    }
    return { name: String(found.name), x: Number(found.x), y: Number(found.y), signals };
  } catch {
    return undefined;
  }
}
