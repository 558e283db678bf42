// Brings the page together: the connection's events go to the table, the status and the counters; the controls go to the connection.
// Not here: how any of them works.
// Read next: connection.ts, table.ts.

import { Analytics } from "./analytics";
import { Connection } from "./connection";
import { frequencyControl, transportControl } from "./controls";
import { element } from "./element";
import { hideNotice, showNotice } from "./notice";
import { Rate } from "./rate";
import { isLive, isWaitingToConnect, showStatus } from "./status";
import { COLUMNS, ITEMS } from "./stocks";
import { StockTable } from "./table";
import { showCommand } from "./terminal";

const table = new StockTable(element("stocks", HTMLTableElement), ITEMS, COLUMNS);
const rate = new Rate();
const reconnect = element("reconnect", HTMLButtonElement);
// Made from the connection, which may already speak while it is made.
let analytics: Analytics | undefined;

const connection = new Connection({
  status(status) {
    showStatus(status);
    table.setStale(!isLive(status));
    analytics?.setConnected(isLive(status));
    reconnect.hidden = !isWaitingToConnect(status);
  },
  serverName(name) {
    element("server-name", HTMLElement).textContent = name ?? "–";
  },
  update(update) {
    rate.add();
    const quiet = update.isSnapshot();
    update.forEachChangedField((field, _position, value) => {
      table.set(update.getItemName(), field, value, quiet);
      if (field === "stock_name") analytics?.setName(update.getItemName(), value);
    });
  },
  failure(what, code, message) {
    showNotice(`${what}: ${message} (code ${code})`);
  },
});

analytics = new Analytics(connection);

function connectNow(): void {
  hideNotice();
  connection.reconnect();
}

// Somebody came back to the tab, or the network came back: do not make them wait for the library's next attempt.
// Not after a refusal ("DISCONNECTED"): the server meant it, so only a person may ask again.
function connectSooner(): void {
  if (document.visibilityState === "visible" && connection.status === "DISCONNECTED:WILL-RETRY") connection.reconnect();
}

showCommand();
frequencyControl((frequency) => connection.setFrequency(frequency));
connection.setTransport(transportControl((transport) => connection.setTransport(transport), showNotice));
reconnect.addEventListener("click", connectNow);
document.addEventListener("visibilitychange", connectSooner);
window.addEventListener("online", connectSooner);
connection.connect();
