// The one line that says what went wrong, above the table.
// Not here: the connection status, which is always shown (status.ts).
// Read next: main.ts, the only caller.

import { element } from "./element";

export function showNotice(text: string): void {
  const line = element("notice", HTMLElement);
  line.textContent = text;
  line.hidden = false;
}

export function hideNotice(): void {
  element("notice", HTMLElement).hidden = true;
}
