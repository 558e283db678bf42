// The page "tell me when": a price, a click, and the server sends a notification when the stock passes it.
// Not here: the protocol (tlcp.ts), the browser's part (browser.ts), the list (alarms.ts).
// Read next: docs/push.md, "Try it in the browser".

import { element } from "../element";
import { hideNotice, showNotice } from "../notice";
import { ADAPTER_SET, DATA_ADAPTER } from "../market/stocks";
import { Alarms, FIELDS } from "./alarms";
import { knownToken, obstacle, token } from "./browser";
import { Refused, Tlcp } from "./tlcp";

const ITEM = "item2";
const STOCK_FIELDS = ["stock_name", "last_price"] as const;

/** Where the server tells about devices and their subscriptions; its name can be configured, but not for this page. */
const PUSH_ADAPTER = "MPN_INTERNAL_DATA_ADAPTER";

/** The site of the demo's configuration. */
const SITE = "demo";
const PLATFORM = "Web";

/** Names are filled in by the server; the service worker shows it. */
const FORMAT = JSON.stringify({ title: "${stock_name} is at ${last_price}", body: "You asked Penstock to tell you." });

const stock = element("stock", HTMLElement).textContent;
const price = element("price", HTMLElement);
const threshold = element("threshold", HTMLInputElement);
const button = element("tell", HTMLButtonElement);

let key: string | undefined;
let device: Promise<string> | undefined;
let registered: ((id: string) => void) | undefined;
/** The number of each subscription to an item about a subscription, by the item. */
const followed = new Map<string, Promise<number>>();

const alarms = new Alarms(stock, (item) => void tried(remove(item)));

const tlcp = new Tlcp(socketAddress(), ADAPTER_SET, {
  opened() {
    hideNotice();
    void tried(begin());
  },
  closed(reason) {
    key = device = registered = undefined;
    followed.clear();
    alarms.clear();
    button.disabled = true;
    showNotice(reason ?? "There is no connection to the server. Trying again…");
  },
  notified(name, values) {
    if (name === "MPNREG") registered?.(values[0] ?? "");
  },
});

/** Where the server lives: above the folder of this page, so that a path prefix is kept. */
function socketAddress(): string {
  const address = new URL("../lightstreamer", location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  return address.href;
}

/** A new session: follow the price, get the server's key, and if this browser is known already, show what it has asked for. */
async function begin(): Promise<void> {
  await tlcp.subscribe(DATA_ADAPTER, "MERGE", ITEM, STOCK_FIELDS, ([, last]) => (price.textContent = last ?? "–"));
  const why = obstacle();
  if (why !== undefined) throw new Error(why);
  try {
    await tlcp.subscribe(PUSH_ADAPTER, "MERGE", `WEB-${SITE}`, ["public_key"], ([found]) => void tried(keyFound(found ?? "")));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new Error(`This server sends no notifications to browsers: ${error.message}`);
  }
}

async function keyFound(found: string): Promise<void> {
  key = found;
  button.disabled = false;
  const known = await knownToken(found);
  if (known !== undefined) await register(known);
}

async function register(deviceToken: string): Promise<string> {
  device ??= registration(deviceToken);
  try {
    return await device;
  } catch (error) {
    device = undefined;
    throw error;
  }
}

/** The id of the device, by a request whose answer comes in two parts. */
async function registration(deviceToken: string): Promise<string> {
  const named = new Promise<string>((resolve) => (registered = resolve));
  await tlcp.request({ LS_op: "register", PN_type: PLATFORM, PN_appId: SITE, PN_deviceToken: deviceToken });
  const id = await named;
  await tlcp.subscribe(PUSH_ADAPTER, "COMMAND", `SUBS-${id}`, ["key", "command"], ([item, command]) => {
    if (item != null) void tried(command === "DELETE" ? forget(item) : follow(item));
  });
  return id;
}

async function follow(item: string): Promise<void> {
  if (followed.has(item)) return;
  const number = tlcp.subscribe(PUSH_ADAPTER, "MERGE", item, FIELDS, (values) => alarms.show(item, values));
  followed.set(item, number);
  await number;
}

async function forget(item: string): Promise<void> {
  const number = followed.get(item);
  followed.delete(item);
  alarms.drop(item);
  if (number !== undefined) await tlcp.unsubscribe(await number);
}

/** "Passes" is up from below, or down from above, whichever is possible. */
async function tellMe(): Promise<void> {
  const limit = threshold.valueAsNumber;
  if (key === undefined || !Number.isFinite(limit)) return;
  const id = await register(await token(key));
  const direction = Number(price.textContent) > limit ? "<" : ">";
  await tlcp.request({
    LS_op: "activate",
    LS_subId: tlcp.nextNumber(),
    LS_data_adapter: DATA_ADAPTER,
    LS_group: ITEM,
    LS_schema: STOCK_FIELDS.join(" "),
    LS_mode: "MERGE",
    PN_deviceId: id,
    PN_notificationFormat: FORMAT,
    PN_trigger: `Double.parseDouble(\${last_price}) ${direction} ${limit}`,
    PN_coalescing: "true",
  });
}

async function remove(item: string): Promise<void> {
  if (device !== undefined) {
    await tlcp.request({ LS_op: "deactivate", PN_deviceId: await device, PN_subscriptionId: item.slice("SUB-".length) });
  }
}

/** What goes wrong is said on the page. */
async function tried(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    showNotice(error instanceof Error ? error.message : String(error));
  }
}

element("wish", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  hideNotice();
  button.disabled = true;
  void tried(tellMe()).then(() => (button.disabled = key === undefined));
});
tlcp.open();
