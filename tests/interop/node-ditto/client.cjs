// The published Ditto client, driven by JSON lines: calls on standard input, results and events on standard output.
// A call names a client, one of its handles, a method and arguments; {"$thing": …} among these is made a Thing,
// {"$search": …}, {"$count": …} and {"$message": …} are made options: each of its members is a method of them.
// Not here: what is called (../test_ditto_client.py).
"use strict";

const readline = require("node:readline");
const {
  DefaultCountOptions,
  DefaultMessagesOptions,
  DefaultSearchOptions,
  DittoNodeClient,
  NodeHttpBasicAuth,
  NodeWebSocketBasicAuth,
  Thing,
} = require("@eclipse-ditto/ditto-javascript-client-node");

const clients = new Map();

function say(message) {
  process.stdout.write(JSON.stringify(message) + "\n");
}

function open({ client, kind, address, user, password }) {
  const [builder, auth] =
    kind === "http"
      ? [DittoNodeClient.newHttpClient(), NodeHttpBasicAuth]
      : [DittoNodeClient.newWebSocketClient(), NodeWebSocketBasicAuth];
  const step = builder.withoutTls().withDomain(address).withAuthProvider(auth.newInstance(user, password));
  if (kind === "http") {
    clients.set(client, step.build());
  } else {
    const buffered = step.withBuffer(100);
    clients.set(client, (kind === "live" ? buffered.liveChannel() : buffered.twinChannel()).build());
  }
}

function handle(client, name, argument) {
  return clients.get(client)[`get${name}Handle`](argument);
}

async function watch({ client }) {
  const events = handle(client, "Events");
  await events.requestEvents();
  events.subscribeToAllEvents((event) => say({ client, event }));
}

async function listen({ client }) {
  const messages = handle(client, "Messages");
  await messages.requestMessages();
  messages.subscribeToAllMessages((event) => say({ client, event }));
}

const OPTIONS = { $search: DefaultSearchOptions, $count: DefaultCountOptions, $message: DefaultMessagesOptions };

function argument(given) {
  if (given === null || typeof given !== "object") {
    return given;
  }
  if ("$thing" in given) {
    return Thing.fromObject(given.$thing);
  }
  const [name] = Object.keys(given).filter((key) => key in OPTIONS);
  if (name === undefined) {
    return given;
  }
  const wanted = Object.entries(given[name]);
  return wanted.reduce((made, [method, values]) => made[method](...values), OPTIONS[name].getInstance());
}

function call({ client, handle: name, of, method, arguments: given }) {
  return handle(client, name, of)[method](...given.map(argument));
}

const actions = { open, watch, listen, call, close: ({ client }) => clients.get(client).close() };

// What the client has made of an answer, as plain data.
function plain(found) {
  if (Array.isArray(found)) {
    return found.map(plain);
  }
  if (found === null || typeof found !== "object") {
    return found === undefined ? null : found;
  }
  if (typeof found.toObject === "function") {
    return found.toObject();
  }
  return found.status === undefined ? found : { status: found.status, body: plain(found.body) };
}

async function answer(line) {
  const asked = JSON.parse(line);
  try {
    say({ id: asked.id, result: plain(await actions[asked.do](asked)) });
  } catch (error) {
    say({ id: asked.id, error: { message: String(error), status: error.status, ...error } });
  }
}

const lines = readline.createInterface({ input: process.stdin });
lines.on("line", answer);
lines.on("close", () => process.exit(0));
say({ version: require("@eclipse-ditto/ditto-javascript-client-node/package.json").version });
