// Requests to /api/admin: the login, and what administrators do.
// Not here: anything visible (login.ts, sessions.ts), the live data (stream.ts).
// Read next: docs/administration.md, or /api/admin/openapi.json of a server.

/** Beside the folder of this page, so that a path prefix is kept. */
const ADMIN = new URL("../api/admin", location.href).href;

export type Role = "admin" | "viewer";

/** Where the streaming port is. */
export interface StreamInfo {
  readonly address: string;
  readonly port: number;
  readonly tls_port: number | null;
}

export interface Block {
  readonly scope: string;
  readonly name: string;
  readonly by: string;
}

export interface SubscriptionInfo {
  readonly number: number;
  readonly data_adapter: string;
  readonly mode: string;
  readonly items: number;
  readonly names: readonly string[];
  readonly fields: readonly string[];
  readonly unfiltered: boolean;
  readonly max_per_second: number | null;
  /** Whether an administrator has set the frequency. */
  readonly is_ruled: boolean;
}

export interface SessionDetail {
  readonly is_ruled: boolean;
  readonly subscribed: readonly SubscriptionInfo[];
}

export interface DrainInfo {
  readonly draining: boolean;
  readonly seconds_left: number | null;
  readonly stop: boolean;
  readonly sessions: number;
}

export interface ReloadInfo {
  readonly new: readonly string[];
  readonly changed: readonly string[];
  readonly gone: readonly string[];
  readonly needs_restart: readonly string[];
}

export interface TlexSession {
  readonly id: string;
  readonly names: readonly string[];
  readonly [field: string]: unknown;
}

/** The server has answered no. `status` is that of HTTP, 0 if no answer has come. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Somebody who has logged in. The password stays in memory, because a restarted server knows no token of before. */
export class Api {
  private token = "";
  role: Role = "viewer";

  constructor(
    readonly user: string,
    readonly password: string,
  ) {}

  async login(): Promise<void> {
    const bytes = new TextEncoder().encode(`${this.user}:${this.password}`);
    const found = (await send("POST", "/login", `Basic ${btoa(String.fromCharCode(...bytes))}`)) as { token: string; role: Role };
    this.token = found.token;
    this.role = found.role;
  }

  async logout(): Promise<void> {
    await send("DELETE", "/login", `Bearer ${this.token}`);
  }

  /** What the server answers to a request; the login is made anew if its token is not good any more. */
  async ask(method: string, path: string, body?: unknown): Promise<unknown> {
    try {
      return await send(method, path, `Bearer ${this.token}`, body);
    } catch (problem) {
      if (!(problem instanceof Refused) || problem.status !== 401) throw problem;
    }
    await this.login();
    return send(method, path, `Bearer ${this.token}`, body);
  }
}

async function send(method: string, path: string, authorization: string, body?: unknown): Promise<unknown> {
  const headers: Record<string, string> = { Authorization: authorization };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer: Response;
  try {
    // No cookie, and no dialog of the browser's own when the login is wrong.
    answer = await fetch(ADMIN + path, { method, headers, body: body === undefined ? null : JSON.stringify(body), credentials: "omit" });
  } catch {
    throw new Refused(0, "the server cannot be reached");
  }
  const text = await answer.text();
  if (answer.ok) return text === "" ? null : (JSON.parse(text) as unknown);
  throw new Refused(answer.status, reason(text, answer.status));
}

function reason(text: string, status: number): string {
  try {
    const found = JSON.parse(text) as { error?: unknown };
    if (typeof found.error === "string") return found.error;
  } catch {
    // Not from the server itself: a proxy before it, perhaps.
  }
  return `status ${status}`;
}
