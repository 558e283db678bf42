// The questions before a drain, and before it is cancelled: of the whole server, or of one node.
// Not here: how the server stands (control.ts), which nodes there are (tables.ts).
// Read next: docs/administration.md, "From a terminal".

import type { Api, DrainInfo } from "./api";
import { askFirst } from "./dialog";

/** `node` is null for the whole server; `done` gets how it stands then. */
export interface DrainQuestion {
  readonly api: Api;
  readonly node: string | null;
  done?(found: DrainInfo): void;
}

export function askDrain({ api, node, done }: DrainQuestion): void {
  askFirst({
    title: node === null ? "Drain the server?" : `Drain ${node}?`,
    text:
      node === null
        ? "New sessions are refused, and load balancers are told not to send any. Within this time open sessions end one after the other, so that their clients go elsewhere. Empty: they end when their clients leave."
        : "This node refuses new sessions. Within this time its open sessions end one after the other, and their clients open new ones at the other nodes. Empty: they end when their clients leave.",
    verb: "Drain",
    fields: [
      { name: "seconds", label: "seconds", kind: "number", least: 0 },
      { name: "stop", label: `Stop the ${node === null ? "server" : "node"} when no session is left`, kind: "check" },
    ],
    run: async ({ seconds = "", stop }) => {
      const body = { seconds: seconds === "" ? null : Number(seconds), stop: stop === "yes", node };
      const found = (await api.ask("POST", "/drain", body)) as DrainInfo;
      done?.(found);
    },
  });
}

export function askCancelDrain({ api, node, done }: DrainQuestion): void {
  askFirst({
    title: node === null ? "Cancel the drain?" : `Cancel the drain of ${node}?`,
    text: "New sessions are let in again. Those that have ended stay so.",
    verb: "Cancel drain",
    run: async () => {
      const which = node === null ? "" : `?node=${encodeURIComponent(node)}`;
      const found = (await api.ask("DELETE", `/drain${which}`)) as DrainInfo;
      done?.(found);
    },
  });
}
