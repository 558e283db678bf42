// What the browser does for notifications: permission, the service worker, and its subscription at its own push service.
// Not here: what the server is told about it (main.ts), what happens when a notification arrives (public/notify/worker.js).
// Read next: the Push API of the browsers.

/** Why this browser cannot be told anything; undefined if it can. */
export function obstacle(): string | undefined {
  if (!window.isSecureContext) return "Browsers get notifications only from pages at localhost or https: addresses.";
  if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window)) return "This browser cannot get notifications from pages.";
  return undefined;
}

/** The subscription that the browser already has with this key, as JSON text: what the server calls its token. */
export async function knownToken(key: string): Promise<string | undefined> {
  const registration = await navigator.serviceWorker.getRegistration();
  const known = await registration?.pushManager.getSubscription();
  return known != null && Notification.permission === "granted" && isOf(known, key) ? JSON.stringify(known) : undefined;
}

/** The same, with a new subscription if there is none. Asks the person, so only after a click. Throws an Error that says what is wrong. */
export async function token(key: string): Promise<string> {
  if ((await Notification.requestPermission()) !== "granted") {
    throw new Error("Notifications of this page are not allowed. The browser's settings for this site can change that.");
  }
  await navigator.serviceWorker.register("./worker.js");
  const { pushManager } = await navigator.serviceWorker.ready;
  const known = await pushManager.getSubscription();
  // Made with a key that the server does not have any more: the push service would refuse what it sends.
  if (known !== null && !isOf(known, key)) await known.unsubscribe();
  try {
    return JSON.stringify(await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key }));
  } catch (error) {
    throw new Error(`The browser could not subscribe at its push service: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function isOf(subscription: PushSubscription, key: string): boolean {
  const used = subscription.options.applicationServerKey;
  if (used === null) return false;
  const text = btoa(String.fromCharCode(...new Uint8Array(used)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "") === key;
}
