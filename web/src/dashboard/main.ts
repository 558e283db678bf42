// Brings the dashboard together: the login, then one client of the stream, and the tabs that show what it brings.
// Not here: how any of them works.
// Read next: api.ts, stream.ts, tabs.ts.

import { element } from "../element";
import { showStatus } from "../status";
import { Api, Refused, type StreamInfo } from "./api";
import { Control } from "./control";
import { GRAPH_FIELDS, Graphs } from "./graphs";
import { Log } from "./log";
import { Picture, PICTURE_FIELDS } from "./picture";
import { Sessions } from "./sessions";
import { Statistics } from "./statistics";
import { Stream, streamAddress } from "./stream";
import { AdaptersAndQueries, configurationTable, itemsTable, nodesTable } from "./tables";
import { Tabs } from "./tabs";

const form = element("login", HTMLFormElement);
const problem = element("login-problem", HTMLElement);
const notice = element("notice", HTMLElement);
const password = element("password", HTMLInputElement);
const submit = form.querySelector("button")!;

/** Milliseconds until the login is tried again, after the stream has refused what was good before. */
const AGAIN = 3000;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void enter(element("user", HTMLInputElement).value, password.value);
});

async function enter(user: string, secret: string): Promise<void> {
  problem.hidden = true;
  submit.disabled = true;
  try {
    const api = new Api(user, secret);
    await api.login();
    open(api, streamAddress((await api.ask("GET", "/stream")) as StreamInfo));
  } catch (error) {
    problem.textContent = `Not logged in: ${error instanceof Error ? error.message : String(error)}.`;
    problem.hidden = false;
  } finally {
    submit.disabled = false;
    password.value = "";
  }
}

function open(api: Api, address: string): void {
  const stream = new Stream(address, api.user, api.password, {
    status(status) {
      showStatus(status);
      document.body.dataset["live"] = String(status.startsWith("CONNECTED:"));
      if (status.startsWith("CONNECTED:")) notice.hidden = true;
    },
    refused: (message) => void again(api, stream, message),
  });
  const statistics = new Statistics(stream, [...new Set([...PICTURE_FIELDS, ...GRAPH_FIELDS])]);
  const panel = (name: string): HTMLElement => element(name, HTMLElement);
  const tabs = new Tabs({
    picture: new Picture(panel("picture"), statistics),
    graphs: new Graphs(panel("graphs"), statistics),
    sessions: new Sessions(panel("sessions"), stream, api),
    items: itemsTable(panel("items"), stream),
    adapters: new AdaptersAndQueries(panel("adapters"), stream, api),
    nodes: nodesTable(panel("nodes"), stream, api),
    log: new Log(panel("log"), stream),
    control: new Control(panel("control"), statistics, api),
    configuration: configurationTable(panel("configuration"), stream),
  });
  stream.watch({
    mode: "MERGE",
    item: "monitor_identification",
    fields: ["VERSION", "LOCAL_HOST"],
    update: (update) => {
      panel("server-name").textContent = `${update.getValue("VERSION") ?? ""} on ${update.getValue("LOCAL_HOST") ?? ""}`;
    },
  });
  panel("who").textContent = `${api.user} (${api.role})`;
  form.hidden = true;
  panel("board").hidden = false;
  const leave = element("leave", HTMLButtonElement);
  leave.hidden = false;
  leave.addEventListener("click", () => {
    stream.disconnect();
    // Everything that this page knows is forgotten with it.
    void api.logout().catch(() => undefined).then(() => location.reload());
  });
  // Somebody came back to the window, or the network came back: they are not to wait for the library's next attempt.
  const sooner = (): void => {
    if (document.visibilityState === "visible" && stream.status === "DISCONNECTED:WILL-RETRY") stream.reconnect();
  };
  document.addEventListener("visibilitychange", sooner);
  window.addEventListener("online", sooner);
  tabs.showNamed();
  stream.connect();
}

/** The stream has said no to a login that was good. If it is wrong now somebody has to log in again, else it is tried again. */
async function again(api: Api, stream: Stream, message: string): Promise<void> {
  notice.textContent = `The server has ended the connection: ${message}`;
  notice.hidden = false;
  await new Promise((done) => setTimeout(done, AGAIN));
  try {
    // With the token, or with the password if that is not good any more.
    await api.ask("GET", "/me");
    stream.connect();
  } catch (error) {
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
      notice.textContent = `Your login is no longer valid: ${error.message}. Log out, and log in again.`;
      return;
    }
    void again(api, stream, message);
  }
}
