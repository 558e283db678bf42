// The tabs: their names in addresses, their titles, and how each is loaded when it is first wanted.
// Not here: moving between them (main.ts).
// Read next: tab.ts.

import type { TabModule } from "./tab";

export interface TabEntry {
  readonly name: string;
  readonly title: string;
  load(): Promise<TabModule>;
}

export const TABS: readonly [TabEntry, ...TabEntry[]] = [
  { name: "market", title: "Market", load: () => import("../market/market") },
  { name: "portfolio", title: "Portfolio", load: () => import("../portfolio/portfolio") },
  { name: "chat", title: "Chat", load: () => import("../chat/chat") },
  { name: "twins", title: "Twins", load: () => import("../twins/twins") },
  { name: "traffic", title: "Traffic lights", load: () => import("../traffic/traffic") },
  { name: "playground", title: "Playground", load: () => import("../playground/playground") },
];
