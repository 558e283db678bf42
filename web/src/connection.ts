// The client library as this page uses it: one client, the subscription to all stocks, further ones, and the settings people may change.
// Not here: anything visible (status.ts, table.ts, controls.ts).
// Read next: lightstreamer-client-web, classes LightstreamerClient, ConnectionOptions and Subscription.

import { LightstreamerClient, Subscription, type ItemUpdate } from "lightstreamer-client-web/core";
import { ADAPTER_SET, DATA_ADAPTER, FIELDS, ITEMS } from "./stocks";

export const TRANSPORTS = ["auto", "WS-STREAMING", "HTTP-STREAMING", "WS-POLLING", "HTTP-POLLING"] as const;
export type Transport = (typeof TRANSPORTS)[number];

export const FREQUENCIES = ["unlimited", "5", "1"] as const;
export type Frequency = (typeof FREQUENCIES)[number];

/** Milliseconds between two attempts, and the patience with each. The library's 4000 makes a restarted server look slow to return;
 * much less than this would give up on a slow phone network before it could answer. */
const RETRY_DELAY = 2000;

/** What the page wants to hear about. */
export interface Events {
  status(status: string): void;
  serverName(name: string | null): void;
  update(update: ItemUpdate): void;
  failure(what: string, code: number, message: string): void;
}

/** A subscription beside the one to the stocks. */
export interface Wish {
  readonly adapter: string;
  readonly mode: "MERGE" | "DISTINCT" | "COMMAND";
  readonly items: readonly string[];
  readonly fields: readonly string[];
  update(update: ItemUpdate): void;
  /** Everything the item had is gone. */
  cleared?(): void;
}

/** Where the server lives: the folder this page came from, so that a path prefix is kept. */
export function serverAddress(): string {
  return new URL(".", location.href).href;
}

export class Connection {
  private readonly client = new LightstreamerClient(serverAddress(), ADAPTER_SET);
  private readonly subscription = new Subscription("MERGE", [...ITEMS], [...FIELDS]);

  constructor(events: Events) {
    this.client.connectionOptions.setRetryDelay(RETRY_DELAY);
    this.client.addListener({
      onStatusChange: (status) => events.status(status),
      onPropertyChange: (property) => {
        if (property === "serverSocketName") events.serverName(this.client.connectionDetails.getServerSocketName());
      },
      onServerError: (code, message) => events.failure("The server ended the connection", code, message),
    });
    this.subscription.setDataAdapter(DATA_ADAPTER);
    this.subscription.setRequestedSnapshot("yes");
    // Not left to its default: the library refuses to go back to the default once the subscription is active.
    this.setFrequency("unlimited");
    this.subscription.addListener({
      onItemUpdate: (update) => events.update(update),
      onSubscriptionError: (code, message) => events.failure("The server refused the stock list", code, message),
    });
    this.client.subscribe(this.subscription);
  }

  get status(): string {
    return this.client.getStatus();
  }

  connect(): void {
    this.client.connect();
  }

  /** Try now instead of when the library's pause, up to a minute after many failures, is over. */
  reconnect(): void {
    this.client.disconnect();
    this.client.connect();
  }

  /** Subscribe to something else as well. Returns what ends it. */
  watch(wish: Wish): () => void {
    const subscription = new Subscription(wish.mode, [...wish.items], [...wish.fields]);
    subscription.setDataAdapter(wish.adapter);
    subscription.setRequestedSnapshot("yes");
    subscription.addListener({
      onItemUpdate: (update) => wish.update(update),
      onClearSnapshot: () => wish.cleared?.(),
      // A server of one's own may not have it: the page goes on without.
      onSubscriptionError: () => undefined,
      // Subscribed anew, after a lost session: rows that went meanwhile are not told.
      onSubscription: () => wish.cleared?.(),
    });
    this.client.subscribe(subscription);
    return () => this.client.unsubscribe(subscription);
  }

  setTransport(transport: Transport): void {
    // The library takes null for "choose by yourself", its types do not.
    this.client.connectionOptions.setForcedTransport(transport === "auto" ? (null as unknown as string) : transport);
  }

  setFrequency(frequency: Frequency): void {
    // The library takes a number or the word "unlimited", its types only the number.
    this.subscription.setRequestedMaxFrequency(frequency as unknown as number);
  }
}
