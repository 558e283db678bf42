// The tab of control: what an administrator does with the whole server, and how it stands.
// Not here: one session (sessions.ts), one node (tables.ts), levels of the log (levels.ts), the TLEX hub (tlex.ts).
// Read next: docs/administration.md.

import type { Api, DrainInfo, ReloadInfo } from "./api";
import { Blocks } from "./blocks";
import { actionButton, askFirst } from "./dialog";
import { askCancelDrain, askDrain } from "./drain";
import { Levels } from "./levels";
import { make } from "./make";
import type { Statistics } from "./statistics";
import type { Tab } from "./tabs";
import { TlexSessions } from "./tlex";

/** Milliseconds between two questions how things stand, while the tab is shown: others may have changed them. */
const PAUSE = 2_000;

const SCOPES = { all: "all", adapter_set: "of an adapter set", user: "of a user" };

export class Control implements Tab {
  private readonly blocks: Blocks;
  private readonly drainState = make("p", { "data-control": "drain" }, "…");
  private readonly cancel: HTMLButtonElement;
  private readonly reloaded = make("p", { "data-control": "reload" }, "The server reads its configuration and its certificates again, as SIGHUP does.");
  private readonly levels: Levels;
  private readonly tlex: TlexSessions;

  constructor(
    box: HTMLElement,
    statistics: Statistics,
    private readonly api: Api,
  ) {
    this.blocks = new Blocks(api);
    const server = { api, node: null, done: (found: DrainInfo) => this.showDrain(found) };
    this.cancel = actionButton({ label: "Cancel drain…", run: () => askCancelDrain(server) });
    this.cancel.hidden = true;
    const drain = actionButton({ label: "Drain…", run: () => askDrain(server) });
    box.append(
      make(
        "div",
        { class: "cards" },
        this.card("New sessions", [make("p", {}, "Those that are blocked are refused. Open sessions go on, and this page is let in."), this.blocks.list], [
          actionButton({ label: "Block…", run: () => this.askBlock() }),
        ]),
        this.card("Drain before a stop", [this.drainState], [drain, this.cancel]),
        this.card("Configuration", [this.reloaded], [actionButton({ label: "Reload…", run: () => this.askReload() })]),
      ),
    );
    this.tlex = new TlexSessions(box, statistics, api);
    this.levels = new Levels(box, api);
  }

  show(): () => void {
    const look = (): void => {
      this.blocks.refresh();
      // A server that does not answer is no reason to complain here: the status says so.
      this.api.ask("GET", "/drain").then(
        (found) => this.showDrain(found as DrainInfo),
        () => undefined,
      );
    };
    look();
    const timer = setInterval(look, PAUSE);
    const ends = [this.levels.show(), this.tlex.show()];
    return () => {
      clearInterval(timer);
      ends.forEach((end) => end());
    };
  }

  private card(title: string, content: readonly Node[], buttons: readonly HTMLElement[]): HTMLElement {
    const card = make("section", { class: "sheet card" }, make("h2", {}, title), ...content);
    if (this.api.role === "admin") card.append(make("div", { class: "buttons" }, ...buttons));
    return card;
  }

  private askBlock(): void {
    askFirst({
      title: "Block new sessions?",
      text: "They are refused until somebody unblocks them or the server is restarted. Open sessions go on.",
      verb: "Block",
      fields: [
        { name: "scope", label: "Which", kind: "choice", choices: SCOPES },
        { name: "name", label: "Name of the adapter set or the user", kind: "text" },
      ],
      run: ({ scope = "", name = "" }) => this.blocks.block(scope, name),
    });
  }

  private showDrain({ draining, seconds_left, stop, sessions }: DrainInfo): void {
    const left = `${sessions.toLocaleString("en")} ${sessions === 1 ? "session is" : "sessions are"} open`;
    const time = seconds_left === null ? "they end when their clients leave" : `they end within ${Math.ceil(seconds_left)} s`;
    this.drainState.textContent = draining ? `Draining: ${left}, ${time}${stop ? ", then the server stops" : ""}.` : `Not draining: ${left}.`;
    this.drainState.dataset["draining"] = String(draining);
    this.cancel.hidden = !draining;
  }

  private askReload(): void {
    askFirst({
      title: "Reload the configuration?",
      text: "What is wrong with it is told, and then everything stays as it is. Adapter sets that have changed are started anew.",
      verb: "Reload",
      run: async () => {
        const found = (await this.api.ask("POST", "/reload")) as ReloadInfo;
        const parts = [named("started", found.new), named("started anew", found.changed), named("stopped", found.gone), named("needs a restart", found.needs_restart)];
        this.reloaded.textContent = `Reloaded. ${parts.filter((part) => part !== "").join(" ") || "Adapter sets are the same as before."}`;
      },
    });
  }
}

function named(what: string, names: readonly string[]): string {
  return names.length === 0 ? "" : `${what[0]?.toUpperCase() ?? ""}${what.slice(1)}: ${names.join(", ")}.`;
}
