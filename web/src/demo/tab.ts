// What a tab is to the page around it.
// Not here: the tabs themselves (../market, ../chat, …), which of them there are (tabs.ts).
// Read next: main.ts.

import type { Login, Session } from "./session";

/** The page, as a tab sees it. */
export interface Shell {
  /** Where the server is: the folder of this page's root, so that a path prefix is kept. */
  readonly address: string;
  /** Open a session; it ends with the tab. One that was open before ends now. */
  session(adapterSet: string, login?: Login): Session;
  /** Hear whether data flows, now and whenever that changes. */
  onLive(told: (live: boolean) => void): void;
  /** Say what is wrong, above everything. */
  complain(text: string): void;
}

/** A file that the tab is made of: its name, and how to load it. */
export interface Source {
  readonly name: string;
  load(): Promise<{ default: string }>;
}

export interface TabModule {
  readonly sources: readonly Source[];
  /** Fill the element; returns what ends it. */
  open(view: HTMLElement, shell: Shell): () => void;
}
