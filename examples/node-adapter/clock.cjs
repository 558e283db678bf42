// The time in some zones, as items: `node clock.cjs`. The server listens, this process connects.
const net = require("net");
const { DataProvider } = require("lightstreamer-adapter");

const [requests, notifications] = [6661, 6662].map((port) => net.createConnection(port, "localhost"));
requests.on("close", () => process.exit());

const hasSnapshot = () => false;
const provider = new DataProvider(requests, notifications, hasSnapshot, { user: "clock", password: "change me" });
const timers = new Map();

provider.on("init", (message, response) => response.success());
provider.on("subscribe", (zone, response) => {
  let format;
  try {
    format = new Intl.DateTimeFormat("en-GB", { timeZone: zone, timeStyle: "medium" });
  } catch {
    return response.error(`there is no time zone ${zone}`, "subscription");
  }
  response.success();
  timers.set(zone, setInterval(() => provider.update(zone, false, { time: format.format(new Date()) }), 200));
});
provider.on("unsubscribe", (zone, response) => {
  clearInterval(timers.get(zone));
  timers.delete(zone);
  response.success();
});
