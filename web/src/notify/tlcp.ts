// A small TLCP client over one WebSocket: sessions, requests, subscriptions, and what is notified about push notifications.
// Not here: what they are used for (main.ts). The published client is not used, because its devices are Apple's or Google's only.
// Read next: the TLCP specification; connection.ts for the published client.

/** A pause before the next attempt, in milliseconds. */
const RETRY_DELAY = 2000;

/** What the specification wants of every client that is not one of the official libraries. */
const CLIENT_ID = "mgQkwtwdysogQz2BJ4Ji kOj2Bg";

export type Parameters = Readonly<Record<string, string | number>>;
export type Values = readonly (string | null)[];

/** What the page wants to hear about. */
export interface Events {
  /** A new session, which has nothing of the one before. */
  opened(): void;
  /** There is none now; a new one is tried unless there is a reason that will not go away. */
  closed(reason?: string): void;
  /** Anything that is neither an answer nor an update, such as MPNOK. */
  notified(name: string, values: readonly string[]): void;
}

/** The server has refused a request. */
export class Refused extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

interface Waiting {
  resolve(): void;
  reject(error: Error): void;
}

interface Subscribed {
  readonly values: (string | null)[];
  update(values: Values): void;
}

export class Tlcp {
  private socket: WebSocket | undefined;
  private lastRequest = 0;
  private lastSubscription = 0;
  private readonly waiting = new Map<string, Waiting>();
  private readonly subscribed = new Map<string, Subscribed>();

  constructor(
    private readonly address: string,
    private readonly adapterSet: string,
    private readonly events: Events,
  ) {}

  open(): void {
    const socket = new WebSocket(this.address, "TLCP-2.4.0.lightstreamer.com");
    this.socket = socket;
    socket.addEventListener("open", () => {
      const wishes = { LS_cid: CLIENT_ID, LS_adapter_set: this.adapterSet, LS_send_sync: "false", LS_supported_diffs: "" };
      socket.send(`create_session\r\n${encoded(wishes)}`);
    });
    socket.addEventListener("message", ({ data }) => {
      for (const line of String(data).split("\r\n")) if (line !== "") this.read(line);
    });
    socket.addEventListener("close", () => this.end(socket));
  }

  /** Ask for something about the session; rejects with Refused, or if the connection ends before the answer. */
  request(parameters: Parameters): Promise<void> {
    const socket = this.socket;
    if (socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Error("there is no connection to the server"));
    const id = String(++this.lastRequest);
    socket.send(`control\r\n${encoded({ LS_reqId: id, ...parameters })}`);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  /** A number for a subscription, for data or for push notifications. */
  nextNumber(): number {
    return ++this.lastSubscription;
  }

  /** Follow one item; its number, for `unsubscribe`. */
  async subscribe(adapter: string, mode: "MERGE" | "COMMAND", item: string, fields: readonly string[], update: (values: Values) => void): Promise<number> {
    const number = this.nextNumber();
    this.subscribed.set(String(number), { values: fields.map(() => null), update });
    await this.request({
      LS_op: "add",
      LS_subId: number,
      LS_data_adapter: adapter,
      LS_group: item,
      LS_schema: fields.join(" "),
      LS_mode: mode,
      LS_snapshot: "true",
    });
    return number;
  }

  async unsubscribe(number: number): Promise<void> {
    this.subscribed.delete(String(number));
    await this.request({ LS_op: "delete", LS_subId: number });
  }

  private read(line: string): void {
    const [name = "", ...values] = line.split(",");
    if (name === "U") this.update(line);
    else if (name === "CONOK") this.events.opened();
    else if (name === "REQOK") this.answered(values[0])?.resolve();
    else if (name === "REQERR") this.answered(values[0])?.reject(refusal(values[1], values[2]));
    else if (name === "CONERR") this.end(this.socket, `The server refuses a session: ${refusal(values[0], values[1]).message}`);
    else if (name === "END" || name === "LOOP") this.socket?.close();
    else this.events.notified(name, values.map(decodeURIComponent));
  }

  private answered(id: string | undefined): Waiting | undefined {
    const found = this.waiting.get(id ?? "");
    this.waiting.delete(id ?? "");
    return found;
  }

  /** `U,subscription,item,value|value|…`, in which values that are as before are left out. */
  private update(line: string): void {
    const [, number = "", , ...rest] = line.split(",");
    const found = this.subscribed.get(number);
    if (found === undefined) return;
    let field = 0;
    for (const value of rest.join(",").split("|")) {
      if (value.startsWith("^")) {
        field += Number(value.slice(1));
        continue;
      }
      if (value !== "") found.values[field] = value === "#" ? null : value === "$" ? "" : decodeURIComponent(value);
      field += 1;
    }
    found.update([...found.values]);
  }

  private end(socket: WebSocket | undefined, reason?: string): void {
    // It may have been replaced, or have ended already.
    if (socket === undefined || socket !== this.socket) return;
    this.socket = undefined;
    socket.close();
    this.lastSubscription = 0;
    this.subscribed.clear();
    for (const { reject } of this.waiting.values()) reject(new Error("the connection to the server has ended"));
    this.waiting.clear();
    this.events.closed(reason);
    if (reason === undefined) setTimeout(() => this.open(), RETRY_DELAY);
  }
}

function refusal(code: string | undefined, message: string | undefined): Refused {
  return new Refused(Number(code), `${decodeURIComponent(message ?? "")} (code ${code ?? "?"})`);
}

function encoded(parameters: Parameters): string {
  return Object.entries(parameters)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join("&");
}
