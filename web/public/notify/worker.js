// The service worker: runs when a notification arrives, also if no page is open, and shows it.
// Not here: who subscribes the browser (src/notify/browser.ts). Plain JavaScript with this very name, because browsers keep it by its address.
// Read next: docs/push.md, "Try it in the browser".

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const { title = "Penstock", body = "" } = content(event.data);
  event.waitUntil(self.registration.showNotification(title, { body }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(openPage());
});

/** The notification's format with all values filled in; whatever else was sent is shown as it is. */
function content(data) {
  try {
    return data.json() ?? {};
  } catch {
    return { body: data?.text() };
  }
}

async function openPage() {
  for (const page of await self.clients.matchAll({ type: "window" })) return page.focus();
  return self.clients.openWindow(self.registration.scope);
}
