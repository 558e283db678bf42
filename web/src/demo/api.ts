// The API port, as pages of the streaming port find it: where it is, and requests to things.
// Not here: what is shown of things (../twins).
// Read next: docs/ditto.md, "HTTP".

/** Of the demo, for clients on the same machine only: it is no secret. */
export const USER = "ditto";
export const PASSWORD = "ditto";

/** The server has answered no. `status` is that of HTTP; 0 if no answer has come. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** What the streaming port tells pages of the demo. */
export interface Facts {
  /** The address of the API port, without a slash at its end; undefined if pages cannot reach it. */
  readonly api: string | undefined;
  readonly dashboard: boolean;
  readonly docs: boolean;
}

let known: Promise<Facts> | undefined;

/** Asked for once; again if there was no answer. */
export function facts(root: string): Promise<Facts> {
  known ??= ask(root).catch(() => {
    known = undefined;
    return { api: undefined, dashboard: false, docs: false };
  });
  return known;
}

async function ask(root: string): Promise<Facts> {
  const found = (await (await fetch(new URL("demo.json", root))).json()) as Record<string, number | boolean | null>;
  const port = found[location.protocol === "https:" ? "api_tls_port" : "api_port"];
  return {
    api: typeof port === "number" ? `${location.protocol}//${location.hostname}:${port}` : undefined,
    dashboard: found["dashboard"] === true,
    docs: found["docs"] === true,
  };
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export class Things {
  constructor(readonly api: string) {}

  /** Ask for something below /api/2. Rejects with Refused. */
  async ask(method: string, path: string, body?: Json): Promise<Json> {
    let answer: Response;
    try {
      answer = await fetch(`${this.api}/api/2${path}`, {
        method,
        headers: {
          Authorization: `Basic ${btoa(`${USER}:${PASSWORD}`)}`,
          ...(body === undefined ? {} : { "Content-Type": method === "PATCH" ? "application/merge-patch+json" : "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    } catch {
      throw new Refused(0, "The API port does not answer.");
    }
    const text = await answer.text();
    if (!answer.ok) {
      let words = `The server answered ${answer.status}.`;
      try {
        words = (JSON.parse(text) as { message?: string }).message ?? words;
      } catch {
        // Not every answer is JSON.
      }
      throw new Refused(answer.status, words);
    }
    return text === "" ? null : (JSON.parse(text) as Json);
  }
}
