// The sessions of the TLEX hub, while there are any: who they are, ending one, and asking one to reconnect.
// Not here: the figures of the hub (picture.ts).
// Read next: docs/tlex.md.

import type { Api, TlexSession } from "./api";
import { askFirst, showDetails, type Action } from "./dialog";
import { formatted, moment, number } from "./format";
import { Grid, type Row } from "./grid";
import { make } from "./make";
import type { Statistics } from "./statistics";

/** Sessions that are listed; the server gives no more at once. */
const MOST = 500;
/** Samples between two lists. */
const SAMPLES = 2;

export class TlexSessions {
  private readonly part = make("section", { class: "half", "data-table": "tlex", hidden: true }, make("h2", {}, "TLEX sessions"));
  private readonly grid: Grid;
  private readonly rest = make("p", { class: "nothing", hidden: true });
  private samples = 0;

  constructor(
    box: HTMLElement,
    private readonly statistics: Statistics,
    private readonly api: Api,
  ) {
    box.append(this.part);
    this.grid = new Grid(this.part, {
      label: "TLEX sessions",
      sort: "domain",
      empty: "No TLEX sessions.",
      columns: [
        { field: "domain", title: "Domain", width: "minmax(6rem, 1fr)", narrow: true },
        { field: "account", title: "Account", width: "minmax(6rem, 1fr)" },
        { field: "type", title: "Type", width: "minmax(6rem, 1fr)", narrow: true },
        { field: "protocol", title: "Protocol", width: "minmax(10rem, 1.4fr)" },
        { field: "state", title: "State", width: "minmax(5rem, 0.8fr)", narrow: true },
        { field: "identifiers", title: "Controllers", width: "minmax(6rem, 0.8fr)", format: number, numeric: true },
        { field: "received", title: "Received", width: "minmax(6rem, 0.8fr)", format: number, numeric: true },
        { field: "sent", title: "Sent", width: "minmax(5rem, 0.8fr)", format: number, numeric: true },
        { field: "dropped", title: "Dropped", width: "minmax(5rem, 0.8fr)", format: number, numeric: true },
      ],
      open: (id, row) => showDetails(`TLEX session ${id}`, formatted(row, { created_ms: moment, connected_ms: moment }), this.actions(id, row)),
    });
    this.part.append(this.rest);
  }

  show(): () => void {
    this.samples = 0;
    return this.statistics.listen(() => {
      // Where there are none the server is not asked: it may not serve TLEX at all.
      const some = Number(this.statistics.latest["TLEX.SESSIONS"] ?? 0) > 0;
      this.part.hidden = !some;
      if (!some) this.grid.clear();
      else if (this.samples++ % SAMPLES === 0) void this.refresh();
    });
  }

  private async refresh(): Promise<void> {
    let found: { total: number; sessions: readonly TlexSession[] };
    try {
      found = (await this.api.ask("GET", `/tlex/sessions?limit=${MOST}`)) as typeof found;
    } catch {
      return; // The status says that the server does not answer.
    }
    const kept = new Set(found.sessions.map((session) => session.id));
    for (const key of this.grid.keys()) if (!kept.has(key)) this.grid.remove(key);
    for (const session of found.sessions) this.grid.put(session.id, shown(session));
    this.rest.hidden = found.total <= found.sessions.length;
    this.rest.textContent = `The first ${MOST} of ${found.total.toLocaleString("en")}; penstock admin tlex sessions lists all.`;
  }

  private actions(id: string, row: Row): Action[] {
    if (this.api.role !== "admin") return [];
    const path = `/tlex/sessions/${encodeURIComponent(id)}`;
    const what = `TLEX session ${id} of ${row["account"] ?? ""} in ${row["domain"] ?? ""}`;
    const done = async (asked: Promise<unknown>): Promise<void> => {
      await asked;
      await this.refresh();
    };
    return [
      {
        label: "End session…",
        run: () =>
          askFirst({
            title: "End the TLEX session?",
            text: `${what} is closed, and its peer is told.`,
            verb: "End session",
            run: () => done(this.api.ask("DELETE", path)),
          }),
      },
      {
        label: "Ask to reconnect…",
        run: () =>
          askFirst({
            title: "Ask the peer to reconnect?",
            text: `The peer of ${what} is asked to come again with a new session. Its controllers are free at once.`,
            verb: "Ask to reconnect",
            run: () => done(this.api.ask("POST", `${path}/reconnect`)),
          }),
      },
    ];
  }
}

function shown(session: TlexSession): Row {
  return Object.fromEntries(Object.entries(session).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : value === null ? null : String(value)]));
}
