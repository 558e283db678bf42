// The connection status in plain words and one colour.
// Not here: what makes the status change (demo/session.ts, dashboard/stream.ts).
// Read next: the client library's ClientListener.onStatusChange, which lists every status.

import { element } from "./element";

/** `live`: data flows. `wait`: something is under way. `off`: nothing happens until somebody acts. */
type Tone = "live" | "wait" | "off";

interface Meaning {
  readonly words: string;
  readonly tone: Tone;
}

const MEANINGS: Readonly<Record<string, Meaning>> = {
  CONNECTING: { words: "Connecting…", tone: "wait" },
  "CONNECTED:STREAM-SENSING": { words: "Connected, choosing a transport…", tone: "wait" },
  "CONNECTED:WS-STREAMING": { words: "Live over WebSocket", tone: "live" },
  "CONNECTED:HTTP-STREAMING": { words: "Live over HTTP streaming", tone: "live" },
  "CONNECTED:WS-POLLING": { words: "Live over WebSocket polling", tone: "live" },
  "CONNECTED:HTTP-POLLING": { words: "Live over HTTP polling", tone: "live" },
  STALLED: { words: "The server is silent, waiting…", tone: "wait" },
  "DISCONNECTED:WILL-RETRY": { words: "Connection lost, trying again…", tone: "wait" },
  "DISCONNECTED:TRYING-RECOVERY": { words: "Connection lost, resuming…", tone: "wait" },
  DISCONNECTED: { words: "Not connected", tone: "off" },
};

/** Whether values on screen are being kept up to date in this status. */
export function isLive(status: string): boolean {
  return MEANINGS[status]?.tone === "live";
}

/** Whether asking for a connection by hand makes sense: the library has given up, or pauses between two attempts. */
export function isWaitingToConnect(status: string): boolean {
  return status === "DISCONNECTED" || status === "DISCONNECTED:WILL-RETRY";
}

export function showStatus(status: string): void {
  const meaning = MEANINGS[status] ?? { words: status, tone: "wait" };
  const box = element("status", HTMLElement);
  box.dataset["status"] = status;
  box.dataset["tone"] = meaning.tone;
  element("status-words", HTMLElement).textContent = meaning.words;
}
