// The browser's own WebSocket and XMLHttpRequest, watched: every byte and every protocol line is counted, and the line can be cut.
// Not here: what the lines mean to a page (the client library), where figures are shown (instruments.ts).
// Read next: the TLCP specification, "Session Recovery".

/** Notifications that the protocol numbers, and that a server sends again after a broken connection. */
const NUMBERED = /^(U|SUBOK|SUBCMD|UNSUB|EOS|CS|OV|CONF|MSGDONE|MSGFAIL),/;

const ASCII = /^[\x00-\x7f]*$/;
const utf8 = new TextEncoder();

export function byteLength(text: string): number {
  return ASCII.test(text) ? text.length : utf8.encode(text).length;
}

/** How a connection that broke came back. */
export interface Recovery {
  /** The same session goes on; else the server did not have it any more, and everything was sent anew. */
  readonly same: boolean;
  /** Notifications that had waited at the server. */
  readonly waited: number;
  /** Notifications that the server skipped; and those that it sent a second time, which the library drops. */
  readonly lost: number;
  readonly repeated: number;
}

/** What was received of one session. */
interface Count {
  received: number;
}

class Wire {
  /** Bytes of messages received since the page was loaded. */
  bytes = 0;
  private readonly lineListeners = new Set<(line: string) => void>();
  private readonly recoveryListeners = new Set<(recovery: Recovery) => void>();
  private readonly connections = new Set<() => void>();
  private readonly counts = new Map<string, Count>();
  private last: Count | undefined;
  private broken = false;
  private cutUntil = 0;

  /** Every line that comes in. Returns what ends it. */
  listen(told: (line: string) => void): () => void {
    this.lineListeners.add(told);
    return () => this.lineListeners.delete(told);
  }

  recovered(told: (recovery: Recovery) => void): void {
    this.recoveryListeners.add(told);
  }

  get isCut(): boolean {
    return performance.now() < this.cutUntil;
  }

  /** Break all connections, and let none be made for a while. */
  cut(milliseconds: number): void {
    this.cutUntil = performance.now() + milliseconds;
    this.broken = true;
    for (const close of [...this.connections]) close();
  }

  /** A connection has begun; what takes its text is returned. */
  connected(close: () => void): Reader {
    this.connections.add(close);
    return new Reader(this, () => this.connections.delete(close));
  }

  read(line: string): void {
    for (const told of this.lineListeners) told(line);
  }

  /** `CONOK`: a session has begun, or goes on. */
  bound(session: string): Count {
    let count = this.counts.get(session);
    if (count === undefined) {
      if (this.broken && this.last !== undefined) this.tell({ same: false, waited: 0, lost: 0, repeated: 0 });
      this.counts.clear();
      this.counts.set(session, (count = { received: 0 }));
      this.last = count;
    }
    return count;
  }

  /** A connection has ended by itself. */
  broke(): void {
    this.broken = true;
  }

  tell(recovery: Recovery): void {
    this.broken = false;
    for (const told of this.recoveryListeners) told(recovery);
  }
}

/** Cuts the text of one connection into lines. */
class Reader {
  private rest = "";
  private count: Count | undefined;
  private resumed: { at: number; received: number; lines: number } | undefined;

  constructor(
    private readonly wire: Wire,
    private readonly ended: () => void,
  ) {}

  take(text: string): void {
    this.wire.bytes += byteLength(text);
    const lines = (this.rest + text).split("\r\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") this.line(line);
  }

  end(): void {
    this.settle();
    this.ended();
  }

  private line(line: string): void {
    if (line.startsWith("CONOK,")) this.count = this.wire.bound(line.split(",")[1] ?? "");
    else if (line.startsWith("PROG,")) this.resume(Number(line.slice(5)));
    else if (line.startsWith("LOOP,")) this.settle();
    else if (NUMBERED.test(line) && this.count !== undefined) {
      this.count.received += 1;
      if (this.resumed !== undefined) this.resumed.lines += 1;
    }
    this.wire.read(line);
  }

  /** The server goes on from here, whatever has arrived. */
  private resume(at: number): void {
    if (this.count === undefined) return;
    this.resumed = { at, received: this.count.received, lines: 0 };
    this.count.received = at;
  }

  private settle(): void {
    if (this.resumed === undefined) return;
    const { at, received, lines } = this.resumed;
    this.resumed = undefined;
    const repeated = Math.max(0, received - at);
    this.wire.tell({ same: true, waited: Math.max(0, lines - repeated), lost: Math.max(0, at - received), repeated });
  }
}

export const wire = new Wire();

/** Milliseconds after which an attempt on a cut line fails. */
const FAILURE = 20;

const NativeSocket = window.WebSocket;
const NativeRequest = window.XMLHttpRequest;

/** A WebSocket on a cut line: it only ever says that it is closed. */
class DeadSocket {
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onopen: unknown = null;
  onmessage: unknown = null;
  onerror: unknown = null;

  constructor() {
    window.setTimeout(() => this.onclose?.({ code: 1006, reason: "the line is cut" }), FAILURE);
  }

  close(): void {
    this.onclose = null;
  }
}

class WatchedSocket extends NativeSocket {
  constructor(address: string | URL, protocols?: string | string[]) {
    if (wire.isCut) return new DeadSocket() as unknown as WatchedSocket;
    super(address, protocols);
    const reader = wire.connected(() => this.close());
    // A message is whole lines; the last may come without its end.
    this.addEventListener("message", ({ data }) => reader.take(`${String(data)}${String(data).endsWith("\r\n") ? "" : "\r\n"}`));
    this.addEventListener("close", ({ wasClean }) => {
      if (!wasClean) wire.broke();
      reader.end();
    });
  }
}

class WatchedRequest extends NativeRequest {
  override send(body?: Document | XMLHttpRequestBodyInit | null): void {
    if (wire.isCut) {
      window.setTimeout(() => this.dispatchEvent(new Event("error")), FAILURE);
      return;
    }
    const reader = wire.connected(() => this.abort());
    let taken = 0;
    this.addEventListener("readystatechange", () => {
      if (this.readyState < NativeRequest.LOADING) return;
      reader.take(this.responseText.slice(taken));
      taken = this.responseText.length;
    });
    this.addEventListener("loadend", () => reader.end());
    super.send(body);
  }
}

/** From now on, whatever is connected is watched. */
export function watchConnections(): void {
  window.WebSocket = WatchedSocket;
  window.XMLHttpRequest = WatchedRequest;
}
