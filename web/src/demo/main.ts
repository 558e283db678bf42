// The demo: one page with tabs, each with an address of its own. Opens and closes tabs, and gives each its session.
// Not here: what the tabs show (../market, ../portfolio, …), the strip below them (instruments.ts).
// Read next: tabs.ts.

import { element } from "../element";
import { hideNotice, showNotice } from "../notice";
import { isLive } from "../status";
import { facts } from "./api";
import { Instruments } from "./instruments";
import { Session } from "./session";
import { showSources } from "./source";
import type { Shell } from "./tab";
import { TABS, type TabEntry } from "./tabs";
import { watchConnections } from "./wire";

/** Before the address changes: the folder that holds all pages, so that a path prefix is kept. */
const ROOT = new URL(document.documentElement.dataset["root"] ?? "./", location.href);
ROOT.search = ROOT.hash = "";

watchConnections();
// Links are relative to the page that was loaded, whatever the address says later.
for (const link of document.querySelectorAll<HTMLAnchorElement>("a[href]")) link.href = link.href;

const view = element("view", HTMLElement);
const nav = element("tabs", HTMLElement);
const instruments = new Instruments(showNotice);

let session: Session | undefined;
let liveListeners: ((live: boolean) => void)[] = [];
let live = false;
let close: () => void = () => undefined;
let opened = 0;

function setLive(now: boolean): void {
  live = now;
  document.body.dataset["live"] = String(live);
  for (const told of liveListeners) told(live);
}

const shell: Shell = {
  address: ROOT.href,
  session(adapterSet, login) {
    session?.end();
    const mine: Session = new Session(
      ROOT.href,
      adapterSet,
      {
        status(status) {
          if (session !== mine) return;
          instruments.status(status);
          setLive(isLive(status));
        },
        serverName(name) {
          element("server-name", HTMLElement).textContent = name ?? "–";
        },
        updated: (update) => instruments.updated(update),
        failure(what, code, message) {
          if (session === mine) showNotice(`${what}: ${message} (code ${code})`);
        },
      },
      login,
    );
    session = mine;
    instruments.attach(mine);
    // After the tab has subscribed: then one request does it all.
    queueMicrotask(() => session === mine && mine.client.connect());
    return mine;
  },
  onLive(told) {
    liveListeners.push(told);
    told(live);
  },
  complain: showNotice,
};

function tabOf(address: string): TabEntry {
  const name = new URL(address).pathname.slice(ROOT.pathname.length).split("/")[0];
  return TABS.find((tab) => tab.name === name) ?? TABS[0];
}

async function open(tab: TabEntry, keepNotice = false): Promise<void> {
  const turn = ++opened;
  close();
  close = () => undefined;
  liveListeners = [];
  session?.end();
  session = undefined;
  if (!keepNotice) hideNotice();
  for (const link of nav.querySelectorAll("a")) {
    if (link.dataset["tab"] !== tab.name) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", "page");
      // On a phone the row of tabs is wider than the screen.
      nav.scrollLeft = link.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
    }
  }
  document.title = `${tab.title}: Penstock`;
  view.dataset["tab"] = tab.name;
  let found;
  try {
    found = await tab.load();
  } catch {
    if (turn === opened) showNotice("This part of the page could not be loaded. Is the server running? Then load the page again.");
    return;
  }
  // Somebody may have chosen another one meanwhile.
  if (turn !== opened) return;
  view.replaceChildren();
  close = found.open(view, shell);
  view.dataset["open"] = tab.name;
  showSources(found.sources);
}

for (const tab of TABS) {
  const link = document.createElement("a");
  link.href = new URL(`${tab.name}/`, ROOT).href;
  link.dataset["tab"] = tab.name;
  link.textContent = tab.title;
  nav.append(link);
}
nav.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  // With a key held, people want a window of its own.
  if (link === null || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (link.href !== location.href) history.pushState(null, "", link.href + location.search);
  void open(tabOf(location.href));
});
window.addEventListener("popstate", () => void open(tabOf(location.href)));

/** Links to what this server has, once it is reached. */
async function showLinks(): Promise<void> {
  const { api, dashboard, docs } = await facts(ROOT.href);
  const [board, pages] = [element("dashboard-link", HTMLAnchorElement), element("docs-link", HTMLAnchorElement)];
  if (api !== undefined) board.href = `${api}/dashboard/`;
  board.hidden = api === undefined || !dashboard;
  pages.href = new URL("docs/", ROOT).href;
  pages.hidden = !docs;
}

// Somebody came back to the tab, or the network came back: do not make them wait for the library's next attempt.
// Not after a refusal ("DISCONNECTED"): the server meant it, so only a person may ask again.
function connectSooner(): void {
  if (document.visibilityState === "visible" && session?.client.getStatus() === "DISCONNECTED:WILL-RETRY") instruments.reconnect();
}
document.addEventListener("visibilitychange", connectSooner);
window.addEventListener("online", connectSooner);

void open(tabOf(location.href), true);
void showLinks();
