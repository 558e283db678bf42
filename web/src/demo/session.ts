// One session of a tab: the published client library, with what all tabs want of it.
// Not here: what is shown (the tabs), figures and the cut (instruments.ts).
// Read next: lightstreamer-client-web, classes LightstreamerClient and Subscription.

import { LightstreamerClient, Subscription, type ItemUpdate } from "lightstreamer-client-web/core";

/** Milliseconds between two attempts, and the patience with each. The library's 4000 makes a restarted server look slow to return;
 * much less than this would give up on a slow phone network before it could answer. */
const RETRY_DELAY = 2000;

export type Mode = "MERGE" | "DISTINCT" | "COMMAND" | "RAW";

/** What to subscribe to. */
export interface Wish {
  readonly adapter: string;
  readonly mode: Mode;
  readonly items: readonly string[];
  readonly fields: readonly string[];
  /** Two-level push: each row's key is an item of this adapter, whose fields come with the row. */
  readonly second?: { readonly adapter: string; readonly fields: readonly string[] };
  readonly frequency?: string;
  readonly snapshot?: string;
  update(update: ItemUpdate): void;
  /** Everything the item had is gone, or is about to be sent anew. */
  cleared?(item: string | null): void;
  refused?(code: number, message: string): void;
}

export interface Login {
  readonly user: string;
  readonly password?: string;
}

/** Who looks at all sessions. */
export interface Observer {
  status(status: string): void;
  serverName(name: string | null): void;
  updated(update: ItemUpdate): void;
  failure(what: string, code: number, message: string): void;
}

/** A subscription that can still be changed. */
export interface Watched {
  end(): void;
  setFrequency(frequency: string): void;
}

export class Session {
  readonly client: LightstreamerClient;
  /** The tab is gone: what is still on its way has nowhere to go. */
  private ended = false;

  constructor(
    address: string,
    adapterSet: string,
    private readonly observer: Observer,
    login?: Login,
  ) {
    this.client = new LightstreamerClient(address, adapterSet);
    if (login !== undefined) this.client.connectionDetails.setUser(login.user);
    if (login?.password !== undefined) this.client.connectionDetails.setPassword(login.password);
    this.client.connectionOptions.setRetryDelay(RETRY_DELAY);
    this.client.addListener({
      onStatusChange: (status) => observer.status(status),
      onPropertyChange: (property) => {
        if (property === "serverSocketName") observer.serverName(this.client.connectionDetails.getServerSocketName());
      },
      onServerError: (code, message) => observer.failure("The server ended the connection", code, message),
    });
  }

  watch(wish: Wish): Watched {
    const subscription = new Subscription(wish.mode, [...wish.items], [...wish.fields]);
    subscription.setDataAdapter(wish.adapter);
    if (wish.mode !== "RAW") subscription.setRequestedSnapshot(wish.snapshot ?? "yes");
    if (wish.second !== undefined) {
      subscription.setCommandSecondLevelDataAdapter(wish.second.adapter);
      subscription.setCommandSecondLevelFields([...wish.second.fields]);
    }
    // The library takes a number or the word "unlimited", its types only the number. Not left to its default, because the
    // library refuses to go back to that once the subscription is active.
    const setFrequency = (frequency: string): void => subscription.setRequestedMaxFrequency(frequency as unknown as number);
    if (wish.mode !== "RAW") setFrequency(wish.frequency ?? "unlimited");
    subscription.addListener({
      onItemUpdate: (update) => {
        if (this.ended) return;
        this.observer.updated(update);
        wish.update(update);
      },
      onClearSnapshot: (item) => this.ended || wish.cleared?.(item),
      // Subscribed anew, after a lost session: rows that went meanwhile are not told.
      onSubscription: () => this.ended || wish.cleared?.(null),
      onSubscriptionError: (code, message) => this.ended || wish.refused?.(code, message),
    });
    this.client.subscribe(subscription);
    return { end: () => this.client.unsubscribe(subscription), setFrequency };
  }

  /** Send a message to the metadata adapter; rejects with its words if it refuses. */
  send(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.client.sendMessage(text, "DEMO", 30_000, {
        onProcessed: () => resolve(),
        onDeny: (_text, _code, words) => reject(new Error(words)),
        onDiscarded: () => reject(new Error("The message was not delivered in time")),
        onError: () => reject(new Error("The message could not be processed")),
        onAbort: () => reject(new Error("The connection ended before the message was confirmed")),
      }, true);
    });
  }

  end(): void {
    this.ended = true;
    this.client.disconnect();
  }
}
