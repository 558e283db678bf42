// The tab Chat: messages of everybody who is here, and one's own.
// Not here: the connection (../demo/session.ts).
// Read next: docs/modes.md, "DISTINCT".

import type { Session } from "../demo/session";
import type { Shell, Source } from "../demo/tab";
import { element } from "../element";
import markup from "./chat.html?raw";

export const sources: readonly Source[] = [
  { name: "chat.ts", load: () => import("./chat.ts?raw") },
  { name: "chat.html", load: async () => ({ default: markup }) },
  { name: "chat.py (server)", load: () => import("../../../src/penstock/adapters/demo/chat.py?raw") },
];

/** Messages that are shown; older ones go. */
const SHOWN = 200;

/** Where the name is kept, in this browser. */
const KEY = "penstock-nick";

export function open(view: HTMLElement, shell: Shell): () => void {
  view.innerHTML = markup;
  const list = element("messages", HTMLOListElement);
  const nick = element("nick", HTMLInputElement);
  const text = element("text", HTMLInputElement);
  const answer = element("chat-answer", HTMLElement);
  nick.value = sessionStorage.getItem(KEY) ?? `guest ${Math.floor(Math.random() * 900) + 100}`;
  element("second-window", HTMLAnchorElement).href = new URL("chat/", shell.address).href;

  let session = enter();

  /** The name is that of the session: whoever wants another one comes again. */
  function enter(): Session {
    sessionStorage.setItem(KEY, nick.value);
    const mine = shell.session("WELCOME", { user: nick.value });
    mine.watch({
      adapter: "CHAT",
      mode: "DISTINCT",
      items: ["chat_room"],
      fields: ["timestamp", "nick", "message"],
      update(update) {
        const follows = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
        list.append(message(update.getValue("timestamp"), update.getValue("nick"), update.getValue("message"), nick.value));
        while (list.children.length > SHOWN) list.firstElementChild?.remove();
        element("no-messages", HTMLElement).hidden = true;
        if (follows) list.scrollTop = list.scrollHeight;
      },
      cleared: () => list.replaceChildren(),
      refused: (code, words) => shell.complain(`The server refused the chat: ${words} (code ${code})`),
    });
    return mine;
  }

  nick.addEventListener("change", () => {
    nick.value = nick.value.trim() || "nobody";
    if (nick.value !== sessionStorage.getItem(KEY)) session = enter();
  });
  element("say", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    const words = text.value.trim();
    if (words === "") return;
    text.value = "";
    answer.textContent = "";
    session.send(`CHAT|${words}`).catch((error: Error) => {
      answer.textContent = `Not sent: ${error.message}`;
      if (text.value === "") text.value = words;
    });
  });
  return () => undefined;
}

/** Strangers have written this: it goes in as text. */
function message(time: string | null, nick: string | null, text: string | null, me: string): HTMLLIElement {
  const part = (kind: string, words: string | null): HTMLElement => {
    const made = document.createElement("span");
    made.className = kind;
    made.textContent = words ?? "";
    return made;
  };
  const line = document.createElement("li");
  line.classList.toggle("mine", nick === me);
  line.append(part("who", nick ?? "somebody"), part("when", time), part("what", text));
  return line;
}
