// The tabs: which is shown, by click, by arrow keys, and by the address after #.
// Not here: what is in them.

import { element } from "../element";

export interface Tab {
  /** The tab has come on screen; returns what is to be done when it goes. */
  show(panel: HTMLElement): (() => void) | void;
}

export class Tabs {
  private readonly names: readonly string[];
  private current: string | undefined;
  private leave: (() => void) | void = undefined;

  constructor(private readonly tabs: Readonly<Record<string, Tab>>) {
    this.names = Object.keys(tabs);
    for (const name of this.names) this.button(name).addEventListener("click", () => this.show(name));
    element("tabs", HTMLElement).addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("hashchange", () => this.showNamed());
  }

  /** That which the address names, or the first. */
  showNamed(): void {
    const asked = location.hash.slice(1);
    const name = this.names.find((each) => each === asked) ?? this.names[0];
    if (name !== undefined) this.show(name);
  }

  close(): void {
    this.leave?.();
    this.leave = undefined;
    this.current = undefined;
  }

  private show(name: string): void {
    if (name === this.current) return;
    this.close();
    this.current = name;
    for (const each of this.names) {
      const button = this.button(each);
      button.setAttribute("aria-selected", String(each === name));
      button.tabIndex = each === name ? 0 : -1;
      this.panel(each).hidden = each !== name;
    }
    if (location.hash.slice(1) !== name) history.replaceState(null, "", `#${name}`);
    // A strip that does not fit shows the tab that was chosen, by keyboard or by address.
    this.button(name).scrollIntoView({ block: "nearest", inline: "nearest" });
    this.leave = this.tabs[name]?.show(this.panel(name));
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = this.names.indexOf(this.current ?? "");
    const name = step === undefined ? { Home: this.names[0], End: this.names.at(-1) }[event.key] : this.names.at((at + step) % this.names.length);
    if (name === undefined) return;
    event.preventDefault();
    this.show(name);
    this.button(name).focus();
  }

  private button(name: string): HTMLButtonElement {
    return element(`tab-${name}`, HTMLButtonElement);
  }

  private panel(name: string): HTMLElement {
    return element(name, HTMLElement);
  }
}
