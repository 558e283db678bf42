// The live data: one TLCP client of the adapter set DASHBOARD, and a subscription for each item that is on screen.
// Not here: what is shown of it.
// Read next: lightstreamer-client-web, classes LightstreamerClient and Subscription; docs/monitor.md.

import { LightstreamerClient, Subscription, type ItemUpdate } from "lightstreamer-client-web/core";
import type { StreamInfo } from "./api";

const ADAPTER_SET = "DASHBOARD";
const DATA_ADAPTER = "MONITOR";

/** Milliseconds between two attempts; the library's 4000 makes a restarted server look slow to return. */
const RETRY_DELAY = 2000;

export interface Wish {
  readonly mode: "MERGE" | "DISTINCT" | "COMMAND";
  readonly item: string;
  readonly fields: readonly string[];
  /** How many events of a DISTINCT item to begin with. */
  readonly snapshot?: number;
  update(update: ItemUpdate): void;
  /** All that the item had is gone, or is about to be sent anew. */
  cleared?(): void;
}

export interface StreamEvents {
  status(status: string): void;
  refused(message: string): void;
}

/** Where the streaming port is for this browser: a page that came by TLS may only use TLS. */
export function streamAddress(info: StreamInfo, page: Location = location): string {
  if (info.address !== "") return info.address;
  if (page.protocol !== "https:") return `http://${page.hostname}:${info.port}/`;
  if (info.tls_port !== null) return `https://${page.hostname}:${info.tls_port}/`;
  throw new Error("This page came over TLS, but the streaming port has no TLS: set admin.stream_address or stream.tls.");
}

export class Stream {
  private readonly client: LightstreamerClient;

  constructor(address: string, user: string, password: string, events: StreamEvents) {
    this.client = new LightstreamerClient(address, ADAPTER_SET);
    this.client.connectionDetails.setUser(user);
    this.client.connectionDetails.setPassword(password);
    this.client.connectionOptions.setRetryDelay(RETRY_DELAY);
    this.client.addListener({
      onStatusChange: (status) => events.status(status),
      onServerError: (code, message) => events.refused(`${message} (code ${code})`),
    });
  }

  get status(): string {
    return this.client.getStatus();
  }

  connect(): void {
    this.client.connect();
  }

  disconnect(): void {
    this.client.disconnect();
  }

  /** Try now instead of when the library's pause is over. */
  reconnect(): void {
    this.client.disconnect();
    this.client.connect();
  }

  /** Subscribe; returns what ends it. */
  watch(wish: Wish): () => void {
    const subscription = new Subscription(wish.mode, [wish.item], [...wish.fields]);
    subscription.setDataAdapter(DATA_ADAPTER);
    subscription.setRequestedSnapshot(wish.snapshot === undefined ? "yes" : String(wish.snapshot));
    subscription.addListener({
      onItemUpdate: (update) => wish.update(update),
      onClearSnapshot: () => wish.cleared?.(),
      // Also after a lost session: rows that went meanwhile are not told.
      onSubscription: () => wish.cleared?.(),
      onSubscriptionError: (code, message) => console.error(`${wish.item}: ${message} (code ${code})`),
    });
    this.client.subscribe(subscription);
    return () => this.client.unsubscribe(subscription);
  }
}
