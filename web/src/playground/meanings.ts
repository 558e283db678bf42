// What a line of the protocol means, in plain words; what is in an update is decoded by the client library.
// Not here: showing them (playground.ts).
// Read next: the TLCP specification, "Notifications".

type Say = (parts: readonly string[]) => string;

const MEANINGS: Readonly<Record<string, Say>> = {
  CONOK: ([session, , keepAlive]) => `Session ${short(session)} is connected; a sign of life comes every ${keepAlive} ms at least`,
  CONERR: ([code, message]) => `No session: ${decoded(message)} (code ${code})`,
  SERVNAME: ([name]) => `The server is called ${decoded(name)}`,
  CLIENTIP: ([address]) => `The server sees this page at ${address}`,
  CONS: ([limit]) => `Bandwidth: ${limit === "unlimited" ? "no limit" : `${limit} kbit/s`}`,
  SYNC: ([seconds]) => `Session is ${seconds} s old, by the server's clock`,
  PROBE: () => "Nothing to send, but the connection is alive",
  NOOP: () => "Nothing; some proxies need bytes to let the stream through",
  LOOP: () => "This connection is over, the session goes on: bind again",
  END: ([code, message]) => `The session is over: ${decoded(message)} (code ${code})`,
  PROG: ([count]) => `The server resumes after notification ${count}`,
  SUBOK: ([id, items, fields]) => `Subscription ${id}: ${items} items with ${fields} fields each`,
  SUBCMD: ([id, items, fields]) => `Subscription ${id}: ${items} items with ${fields} fields each, in COMMAND mode`,
  UNSUB: ([id]) => `Subscription ${id} has ended`,
  CONF: ([id, frequency]) => `Subscription ${id}: ${frequency === "unlimited" ? "as many updates as there are" : `at most ${frequency} updates a second of each item`}`,
  EOS: ([id, item]) => `Subscription ${id}, item ${item}: the snapshot is complete`,
  CS: ([id, item]) => `Subscription ${id}, item ${item}: everything is cleared`,
  OV: ([id, item, lost]) => `Subscription ${id}, item ${item}: ${lost} updates were lost`,
  REQOK: ([request]) => `Request ${request ?? ""} is accepted`,
  REQERR: ([request, code, message]) => `Request ${request} is refused: ${decoded(message)} (code ${code})`,
  ERROR: ([code, message]) => `Refused: ${decoded(message)} (code ${code})`,
  MSGDONE: () => "A message has been processed",
  MSGFAIL: ([, , code, message]) => `A message was refused: ${decoded(message)} (code ${code})`,
  WSOK: () => "The WebSocket works",
};

/** In words; undefined for an update, which the library decodes. */
export function meaningOf(line: string): string | undefined {
  const [tag = "", ...parts] = line.split(",");
  return tag === "U" ? undefined : (MEANINGS[tag]?.(parts) ?? "");
}

function short(session: string | undefined): string {
  return session === undefined ? "" : `${session.slice(0, 8)}…`;
}

function decoded(text: string | undefined): string {
  try {
    return decodeURIComponent(text ?? "");
  } catch {
    return text ?? "";
  }
}
