// Updates per second, counted over whole seconds.
// Not here: per-item rates, bytes.
// Read next: main.ts, which counts.

import { element } from "./element";

const SECOND = 1000; // milliseconds

export class Rate {
  private count = 0;
  private since = performance.now();
  private readonly output = element("rate", HTMLElement);

  constructor() {
    window.setInterval(this.show, SECOND);
  }

  add(): void {
    this.count += 1;
  }

  private readonly show = (): void => {
    // A background tab runs its timers late: divide by the time that really passed.
    const now = performance.now();
    this.output.textContent = String(Math.round((this.count * SECOND) / (now - this.since)));
    this.count = 0;
    this.since = now;
  };
}
