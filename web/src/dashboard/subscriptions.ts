// The subscriptions of one session, below its values, and what an administrator can do about each.
// Not here: the session itself (sessions.ts), the questions (dialog.ts).
// Read next: docs/administration.md.

import type { Api, SessionDetail, SubscriptionInfo } from "./api";
import { actionButton, askFirst } from "./dialog";
import { make } from "./make";

/** Names that are shown of a subscription with many items or fields. */
const NAMES = 10;

/** Fills in what the server says about the subscriptions of a session. */
export function subscriptionsOf(session: string, api: Api): HTMLElement {
  const list = make("ul", {}, make("li", {}, "…"));
  const path = `/sessions/${encodeURIComponent(session)}`;
  api.ask("GET", path).then(
    (found) => {
      const { subscribed } = found as SessionDetail;
      list.replaceChildren(...(subscribed.length === 0 ? [make("li", {}, "None.")] : subscribed.map((each) => entry(each, `${path}/subscriptions/${each.number}`, api))));
    },
    (error: unknown) => list.replaceChildren(make("li", { class: "problem" }, error instanceof Error ? error.message : String(error))),
  );
  return make("section", { class: "subscriptions" }, make("h3", {}, "Subscriptions"), list);
}

function entry(found: SubscriptionInfo, path: string, api: Api): HTMLElement {
  const what = `${found.number}: ${some(found.names, found.items)} of ${found.data_adapter}`;
  const made = make(
    "li",
    { "data-subscription": found.number },
    make("strong", {}, what),
    make("div", {}, `Fields: ${some(found.fields, found.fields.length)}`),
    make("div", { "data-field": "frequency" }, `${found.mode}, ${frequency(found)}`),
  );
  if (api.role !== "admin") return made;
  const buttons = make("div", { class: "buttons" });
  // Without filtering, and in RAW mode, there is no frequency to set.
  if (!found.unfiltered && found.mode !== "RAW")
    buttons.append(
      actionButton({
        label: "Set frequency…",
        run: () =>
          askFirst({
            title: "Set the frequency?",
            text: `Each item of subscription ${what} is updated no more often than this. Empty: no limit.`,
            verb: "Set frequency",
            fields: [{ name: "limit", label: "updates a second", kind: "number", least: 0.001 }],
            run: async ({ limit = "" }) => void (await api.ask("PUT", `${path}/frequency`, { max_per_second: limit === "" ? null : Number(limit) })),
          }),
      }),
    );
  if (found.is_ruled)
    buttons.append(
      actionButton({
        label: "Reset frequency…",
        run: () =>
          askFirst({
            title: "Reset the frequency?",
            text: `For subscription ${what}, what the metadata adapter allows holds again.`,
            verb: "Reset frequency",
            run: async () => void (await api.ask("DELETE", `${path}/frequency`)),
          }),
      }),
    );
  buttons.append(
    actionButton({
      label: "Unsubscribe…",
      run: () =>
        askFirst({
          title: "End the subscription?",
          text: `Subscription ${what} ends, and the client is told. The session goes on.`,
          verb: "Unsubscribe",
          run: async () => void (await api.ask("DELETE", path)),
        }),
    }),
  );
  made.append(buttons);
  return made;
}

function frequency(found: SubscriptionInfo): string {
  if (found.unfiltered || found.mode === "RAW") return "unfiltered";
  const limit = found.max_per_second === null ? "any number of updates a second" : `at most ${found.max_per_second} updates a second`;
  return found.is_ruled ? `${limit}, set by an administrator` : limit;
}

function some(names: readonly string[], all: number): string {
  const shown = names.slice(0, NAMES).join(", ");
  return all > NAMES ? `${shown} and ${all - NAMES} more` : shown;
}
