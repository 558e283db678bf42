// The strip at the bottom of every tab: the connection and how to cut it, the slow line, and what has come over it.
// Not here: counting on the line itself (wire.ts).
// Read next: main.ts.

import type { ItemUpdate } from "lightstreamer-client-web/core";
import { element } from "../element";
import { isWaitingToConnect, showStatus } from "../status";
import { Flow } from "./flow";
import type { Session } from "./session";
import { byteLength, wire, type Recovery } from "./wire";

/** Milliseconds that a cut lasts: long enough to see that nothing moves, much shorter than a server keeps a session. */
const CUT = 3000;

/** Kilobits per second, from the slowest to no limit. */
const BANDWIDTHS = ["1", "2", "4", "8", "16", "32", "64", "unlimited"] as const;

export const TRANSPORTS = ["auto", "WS-STREAMING", "HTTP-STREAMING", "WS-POLLING", "HTTP-POLLING"] as const;
const TRANSPORT_WORDS = ["Automatic", "WebSocket streaming", "HTTP streaming", "WebSocket polling", "HTTP polling"] as const;
const PARAMETER = "transport";

const SECOND = 1000; // milliseconds

export class Instruments {
  private session: Session | undefined;
  private readonly flow = new Flow(element("flow", HTMLCanvasElement));
  private readonly transport = element("transport", HTMLSelectElement);
  private readonly slow = element("slow", HTMLInputElement);
  private readonly cutButton = element("cut", HTMLButtonElement);
  private readonly report = element("cut-report", HTMLElement);
  private updates = 0;
  private plain = 0;
  /** Totals of the tab, and where the wire's count stood when they began. */
  private plainTotal = 0;
  private bytesBefore = 0;
  private bytesAtLastSecond = 0;
  private since = performance.now();
  private cutAt: number | undefined;

  constructor(private readonly complain: (text: string) => void) {
    this.fillTransports();
    this.slow.max = String(BANDWIDTHS.length - 1);
    this.slow.value = this.slow.max;
    this.slow.addEventListener("input", () => this.setBandwidth());
    this.cutButton.addEventListener("click", () => this.cut());
    element("reconnect", HTMLButtonElement).addEventListener("click", () => this.reconnect());
    wire.recovered((recovery) => this.showRecovery(recovery));
    window.setInterval(this.second, SECOND);
    this.showBandwidth();
  }

  /** The session of a tab that has just been opened; figures begin anew. */
  attach(session: Session): void {
    this.session = session;
    this.setBandwidth();
    this.setTransport(this.transport.value);
    this.plainTotal = this.plain = this.updates = 0;
    this.bytesBefore = this.bytesAtLastSecond = wire.bytes;
    this.flow.clear();
    this.report.textContent = "";
    this.showTotals();
  }

  status(status: string): void {
    showStatus(status);
    element("reconnect", HTMLButtonElement).hidden = !isWaitingToConnect(status) || this.cutAt !== undefined;
  }

  updated(update: ItemUpdate): void {
    this.updates += 1;
    this.plain += plainSize(update);
  }

  reconnect(): void {
    this.session?.client.disconnect();
    this.session?.client.connect();
  }

  private cut(): void {
    this.cutAt = performance.now();
    this.cutButton.disabled = true;
    this.report.dataset["tone"] = "wait";
    this.report.textContent = `Cut. Nothing can reach this page for ${CUT / SECOND} s; the server keeps what happens.`;
    wire.cut(CUT);
    window.setTimeout(() => {
      this.cutButton.disabled = false;
    }, CUT);
  }

  private showRecovery({ same, waited, lost, repeated }: Recovery): void {
    const away = this.cutAt === undefined ? "" : ` after ${((performance.now() - this.cutAt) / SECOND).toFixed(1)} s`;
    this.cutAt = undefined;
    this.report.dataset["tone"] = lost === 0 ? "live" : "off";
    this.report.dataset["lost"] = String(lost);
    this.report.textContent = same
      ? `Back${away}, in the same session: ${count(waited, "change")} had waited at the server, ${repeated === 0 ? "" : `${repeated} came twice and were dropped, `}${lost} lost.`
      : `Back${away}, in a new session, because the server had lost the old one: it has sent the current state again.`;
  }

  // -- settings ------------------------------------------------------------------------------------------------------

  private get bandwidth(): string {
    return BANDWIDTHS[Number(this.slow.value)] ?? "unlimited";
  }

  private setBandwidth(): void {
    this.showBandwidth();
    // The library takes a number or the word "unlimited", its types only the number.
    this.session?.client.connectionOptions.setRequestedMaxBandwidth(this.bandwidth as unknown as number);
  }

  private showBandwidth(): void {
    const words = this.bandwidth === "unlimited" ? "no limit" : `${this.bandwidth} kbit/s`;
    element("slow-words", HTMLElement).textContent = words;
    this.slow.setAttribute("aria-valuetext", words);
  }

  private fillTransports(): void {
    const asked = new URLSearchParams(location.search).get(PARAMETER);
    const first = TRANSPORTS.find((transport) => transport === asked) ?? "auto";
    if (asked !== null && first !== asked) this.complain(`${PARAMETER}=${asked} in the address is not one of ${TRANSPORTS.join(", ")}`);
    TRANSPORTS.forEach((value, index) => this.transport.add(new Option(TRANSPORT_WORDS[index], value, value === first, value === first)));
    this.transport.addEventListener("change", () => {
      rememberInAddress(this.transport.value);
      this.setTransport(this.transport.value);
    });
  }

  private setTransport(transport: string): void {
    // The library takes null for "choose by yourself", its types do not.
    this.session?.client.connectionOptions.setForcedTransport(transport === "auto" ? (null as unknown as string) : transport);
  }

  // -- figures -------------------------------------------------------------------------------------------------------

  private readonly second = (): void => {
    // A background tab runs its timers late: divide by the time that really passed.
    const now = performance.now();
    element("rate", HTMLElement).textContent = String(Math.round((this.updates * SECOND) / (now - this.since)));
    this.flow.add(wire.bytes - this.bytesAtLastSecond, this.plain);
    this.bytesAtLastSecond = wire.bytes;
    this.plainTotal += this.plain;
    this.updates = this.plain = 0;
    this.since = now;
    this.showTotals();
  };

  private showTotals(): void {
    const sent = wire.bytes - this.bytesBefore;
    element("bytes-sent", HTMLElement).textContent = size(sent);
    element("bytes-plain", HTMLElement).textContent = size(this.plainTotal);
    const ratio = element("bytes-ratio", HTMLElement);
    ratio.hidden = sent === 0 || this.plainTotal <= sent;
    ratio.textContent = `${(this.plainTotal / sent).toFixed(1)}× less`;
  }
}

/** Bytes of this update as one JSON object with all fields, as a plain feed would send it. */
function plainSize(update: ItemUpdate): number {
  const fields: Record<string, string | null> = { item: update.getItemName() };
  update.forEachField((name, position, value) => {
    fields[name ?? String(position)] = value;
  });
  return byteLength(JSON.stringify(fields));
}

export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(2)} MB`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** Keep the choice over a reload, and let it be passed on as a link. */
function rememberInAddress(transport: string): void {
  const address = new URL(location.href);
  if (transport === "auto") address.searchParams.delete(PARAMETER);
  else address.searchParams.set(PARAMETER, transport);
  history.replaceState(null, "", address);
}
