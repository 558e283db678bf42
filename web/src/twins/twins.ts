// The tab Twins: a list of things, one of them as a tree that can be edited, its changes live, and its history.
// Not here: the tree (tree.ts), requests (../demo/api.ts).
// Read next: docs/ditto.md.

import { facts, PASSWORD, Refused, Things, USER, type Json } from "../demo/api";
import { copyable } from "../demo/copy";
import type { Session, Watched } from "../demo/session";
import type { Shell, Source } from "../demo/tab";
import { element } from "../element";
import { Tree } from "./tree";
import markup from "./twins.html?raw";

export const sources: readonly Source[] = [
  { name: "twins.ts", load: () => import("./twins.ts?raw") },
  { name: "tree.ts", load: () => import("./tree.ts?raw") },
  { name: "api.ts", load: () => import("../demo/api.ts?raw") },
];

const LAMP = "penstock.demo:lamp";
const SWITCH = "/features/light/properties/on";

/** Shown first, because it changes all the time. */
const FIRST = "penstock.demo:greenhouse";

/** Milliseconds that the slider rests before a past state is asked for. */
const REST = 60;

/** Milliseconds before things are looked for again, while those of the demo are not there. */
const AGAIN = 3000;

interface Thing {
  readonly thingId: string;
  readonly _revision?: number;
  readonly [key: string]: Json | undefined;
}

export function open(view: HTMLElement, shell: Shell): () => void {
  view.innerHTML = markup;
  const session = shell.session("DITTO", { user: USER, password: PASSWORD });
  const explorer = new Explorer(shell, session);
  shell.onLive((live) => {
    if (live) void explorer.begin();
  });
  return () => explorer.end();
}

class Explorer {
  private things: Things | undefined;
  private ended = false;
  private lamp: Watched | undefined;
  private list: Watched | undefined;
  private one: Watched | undefined;
  private chosen: string | undefined;
  private revision = 0;
  private latest: Json = null;
  private past = false;
  private timer: number | undefined;
  private again: number | undefined;
  private listed = "";
  private readonly tree = new Tree(element("tree", HTMLElement), (pointer, value) => void this.change(pointer, value));
  private readonly slider = element("moment", HTMLInputElement);

  constructor(
    private readonly shell: Shell,
    private readonly session: Session,
  ) {
    this.slider.addEventListener("input", () => this.look(Number(this.slider.value)));
    element("now", HTMLButtonElement).addEventListener("click", () => this.backToNow());
    element("search", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.find();
    });
    element("lamp-switch", HTMLButtonElement).addEventListener("click", () => void this.switchLamp());
  }

  /** Somebody may have deleted it, or the demo has just begun and has not made it yet. */
  private watchLamp(): void {
    this.lamp ??= this.session.watch({
      adapter: "THINGS",
      mode: "MERGE",
      items: [LAMP],
      fields: [SWITCH],
      update: (update) => this.showLamp(update.getValue(SWITCH) === "true"),
      refused: () => {
        this.lamp = undefined;
      },
    });
  }

  /** Connected, for the first time or again: what there is may have changed. */
  async begin(): Promise<void> {
    const { api } = await facts(this.shell.address);
    if (this.ended) return;
    if (api === undefined) {
      this.say("The API port cannot be reached from this page, so there is nothing to show.");
      return;
    }
    this.things = new Things(api);
    const path = `${api}/api/2/things/${LAMP}${SWITCH}`;
    copyable(element("lamp-curl", HTMLElement), element("lamp-copy", HTMLButtonElement), `curl -u ${USER}:${PASSWORD} -X PUT -H content-type:application/json -d true '${path}'`);
    await this.find();
  }

  end(): void {
    this.ended = true;
    window.clearTimeout(this.timer);
    window.clearTimeout(this.again);
  }

  // -- the list ------------------------------------------------------------------------------------------------------

  private async find(): Promise<void> {
    if (this.things === undefined) return;
    try {
      const found = await this.search(element("search-text", HTMLInputElement).value.trim());
      if (!this.ended) this.showList(found);
    } catch (error) {
      if (!this.ended) this.say(error instanceof Refused && error.status === 401 ? LOCAL_ONLY : String((error as Error).message));
    }
  }

  /** By the server's search: a part of an ID, or a filter such as gt(features/rotor/properties/rpm,300). */
  private async search(text: string): Promise<Thing[]> {
    if (this.things === undefined) return [];
    const query = new URLSearchParams({ fields: "thingId,_revision", option: "size(100)" });
    if (text !== "") query.set("filter", /[()]/.test(text) ? text : `like(thingId,"*${text.replaceAll('"', "")}*")`);
    const answer = (await this.things.ask("GET", `/search/things?${query}`)) as { items: Thing[] };
    return answer.items;
  }

  private showList(found: readonly Thing[]): void {
    element("twins-notice", HTMLElement).hidden = true;
    const box = element("things", HTMLUListElement);
    element("no-things", HTMLElement).hidden = found.length > 0;
    const hasLamp = found.some(({ thingId }) => thingId === LAMP);
    if (hasLamp) this.watchLamp();
    if (hasLamp) element("lamp-box", HTMLElement).hidden = false;
    if (this.chosen === undefined && found.length > 0) this.choose((found.find(({ thingId }) => thingId === FIRST) ?? found[0])?.thingId ?? LAMP);
    window.clearTimeout(this.again);
    if (!hasLamp && element("search-text", HTMLInputElement).value === "") this.again = window.setTimeout(() => void this.find(), AGAIN);
    box.replaceChildren(
      ...found.map(({ thingId }) => {
        const [line, button, count] = [document.createElement("li"), document.createElement("button"), document.createElement("span")];
        button.type = "button";
        button.dataset["thing"] = thingId;
        button.textContent = thingId;
        button.setAttribute("aria-pressed", String(thingId === this.chosen));
        button.addEventListener("click", () => this.choose(thingId));
        count.className = "gauge";
        line.append(button, count);
        return line;
      }),
    );
    // How often each has changed, live.
    const ids = found.map(({ thingId }) => thingId);
    if (ids.join(" ") === this.listed) return;
    this.listed = ids.join(" ");
    this.list?.end();
    this.list = undefined;
    if (ids.length === 0) return;
    this.list = this.session.watch({
      adapter: "THINGS",
      mode: "MERGE",
      items: ids.map(asItem),
      fields: ["_revision"],
      update: (update) => {
        const id = ids[update.getItemPos() - 1] ?? "";
        const count = box.querySelector(`[data-thing="${CSS.escape(id)}"] + span`);
        if (count !== null) count.textContent = update.getValue("_revision") ?? "deleted";
      },
    });
  }

  // -- one thing -----------------------------------------------------------------------------------------------------

  private choose(id: string): void {
    this.chosen = id;
    this.one?.end();
    this.tree.clear();
    this.past = false;
    this.latest = null;
    for (const button of element("things", HTMLElement).querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset["thing"] === id));
    element("thing", HTMLElement).hidden = false;
    element("thing-title", HTMLElement).textContent = id;
    element("edit-answer", HTMLElement).textContent = "";
    this.one = this.session.watch({
      adapter: "THINGS",
      mode: "MERGE",
      items: [asItem(id)],
      fields: ["/", "_revision", "_modified"],
      update: (update) => {
        if (this.chosen !== id) return;
        const text = update.getValue("/");
        this.latest = text === null ? null : (JSON.parse(text) as Json);
        this.revision = Number(update.getValue("_revision") ?? this.revision);
        this.slider.max = String(Math.max(1, this.revision));
        if (this.past) return;
        this.tree.show(this.latest, !update.isSnapshot(), true);
        this.showMoment(this.revision, update.getValue("_modified"));
      },
      cleared: (item) => {
        if (item !== null) element("edit-answer", HTMLElement).textContent = `${id} has been deleted.`;
      },
    });
  }

  private showMoment(revision: number, time: string | null): void {
    if (!this.past) this.slider.value = this.slider.max;
    element("thing-revision", HTMLElement).textContent = `revision ${this.revision}`;
    const when = time === null ? "" : `, ${new Date(time).toLocaleTimeString([], { hour12: false })}`;
    const words = this.past ? `revision ${revision}${when}` : `now${when}`;
    element("moment-words", HTMLElement).textContent = words;
    this.slider.setAttribute("aria-valuetext", words);
    element("now", HTMLButtonElement).hidden = !this.past;
  }

  /** A past state, as it was at this revision. */
  private look(revision: number): void {
    window.clearTimeout(this.timer);
    if (revision >= this.revision) {
      this.backToNow();
      return;
    }
    this.past = true;
    const id = this.chosen ?? "";
    this.timer = window.setTimeout(async () => {
      try {
        const path = `/things/${encodeURIComponent(id)}?at-historical-revision=${revision}&fields=thingId,policyId,attributes,features,_revision,_modified`;
        const found = (await this.things?.ask("GET", path)) as { [key: string]: Json };
        if (this.ended || !this.past || this.chosen !== id) return;
        const { _revision, _modified, ...thing } = found;
        this.tree.show(thing, true, false);
        this.showMoment(Number(_revision), typeof _modified === "string" ? _modified : null);
      } catch (error) {
        if (!this.ended) element("edit-answer", HTMLElement).textContent = (error as Error).message;
      }
    }, REST);
  }

  private backToNow(): void {
    this.past = false;
    this.tree.show(this.latest, true, true);
    this.showMoment(this.revision, null);
  }

  private async change(pointer: string, value: Json): Promise<void> {
    const answer = element("edit-answer", HTMLElement);
    answer.dataset["tone"] = "wait";
    answer.textContent = "Saving…";
    try {
      await this.things?.ask("PUT", `/things/${encodeURIComponent(this.chosen ?? "")}${encodeURI(pointer)}`, value);
      answer.dataset["tone"] = "live";
      answer.textContent = `${pointer} is now ${JSON.stringify(value)}.`;
    } catch (error) {
      answer.dataset["tone"] = "off";
      answer.textContent = `Not changed: ${(error as Error).message}`;
    }
  }

  // -- the lamp ------------------------------------------------------------------------------------------------------

  private showLamp(on: boolean): void {
    const lamp = document.getElementById("lamp");
    lamp?.setAttribute("data-on", String(on));
    lamp?.setAttribute("aria-label", `The lamp is ${on ? "on" : "off"}`);
    element("lamp-switch", HTMLButtonElement).setAttribute("aria-pressed", String(on));
  }

  private async switchLamp(): Promise<void> {
    const on = element("lamp-switch", HTMLButtonElement).getAttribute("aria-pressed") !== "true";
    try {
      await this.things?.ask("PUT", `/things/${LAMP}${SWITCH}`, on);
    } catch (error) {
      this.say((error as Error).message);
    }
  }

  private say(words: string): void {
    const line = element("twins-notice", HTMLElement);
    line.textContent = words;
    line.hidden = false;
  }
}

const LOCAL_ONLY = "The demo's things are for browsers on the server's own machine only, because their password is public. Open http://localhost there.";

/** A space would separate two items. */
function asItem(id: string): string {
  return id.replaceAll("=", "=3D").replaceAll(" ", "=20");
}
