// Candles as a picture: SVG, drawn anew at most once a frame, as wide as its box.
// Not here: colours (page.css), what the candles are (candle.ts).
// Read next: analytics.ts.

import type { Candle } from "./candle";

/** Pixels: of the whole picture, of the strip on the right for prices and of the one below for times. */
const HEIGHT = 240;
const PRICES = 56;
const TIMES = 22;
const ABOVE = 10;

/** Pixels from one candle to the next, at least and at most: few candles are not to become walls. */
const LEAST_STEP = 7;
const MOST_STEP = 26;
/** How much of a step is the candle. */
const BODY = 0.64;

/** Lines across for prices, and pixels between two times. */
const PRICE_LINES = 4;
const TIME_DISTANCE = 90;

const SVG = "http://www.w3.org/2000/svg";

export class Chart {
  private readonly svg = document.createElementNS(SVG, "svg");
  private candles: readonly Candle[] = [];
  private frame: number | undefined;

  constructor(private readonly box: HTMLElement) {
    this.svg.setAttribute("role", "img");
    box.append(this.svg);
    new ResizeObserver(() => this.ask()).observe(box);
  }

  show(candles: readonly Candle[]): void {
    this.candles = candles;
    this.ask();
  }

  private ask(): void {
    this.frame ??= requestAnimationFrame(this.draw);
  }

  private readonly draw = (): void => {
    this.frame = undefined;
    const width = this.box.clientWidth;
    if (width <= PRICES) return;
    const wide = width - PRICES;
    const shown = this.candles.slice(-Math.max(1, Math.floor(wide / LEAST_STEP)));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("width", String(width));
    this.svg.setAttribute("height", String(HEIGHT));
    this.svg.setAttribute("aria-label", description(shown));
    this.svg.dataset["candles"] = String(shown.length);
    this.svg.replaceChildren(...(shown.length ? picture(shown, wide) : []));
  };
}

function picture(candles: readonly Candle[], wide: number): SVGElement[] {
  const [low, high] = range(candles);
  const bottom = HEIGHT - TIMES;
  const y = (price: number): number => ABOVE + ((high - price) / (high - low)) * (bottom - ABOVE);
  const step = Math.min(MOST_STEP, wide / candles.length);
  const x = (index: number): number => wide - (candles.length - index - 0.5) * step;
  const nodes: SVGElement[] = [];
  for (let line = 0; line < PRICE_LINES; line += 1) {
    const price = low + ((high - low) * (line + 0.5)) / PRICE_LINES;
    nodes.push(node("line", { class: "grid", x1: 0, x2: wide, y1: y(price), y2: y(price) }));
    nodes.push(text(price.toFixed(2), { class: "price", x: wide + 8, y: y(price) + 4 }));
  }
  const every = Math.ceil(TIME_DISTANCE / step);
  candles.forEach((candle, index) => {
    const towards = candle.close >= candle.open ? "up" : "down";
    const group = node("g", { class: towards });
    group.append(
      node("line", { x1: x(index), x2: x(index), y1: y(candle.high), y2: y(candle.low) }),
      node("rect", {
        x: x(index) - (step * BODY) / 2,
        width: step * BODY,
        y: y(Math.max(candle.open, candle.close)),
        // Prices that did not move are still to be seen.
        height: Math.max(1, Math.abs(y(candle.open) - y(candle.close))),
      }),
    );
    nodes.push(group);
    const fits = x(index) > TIME_DISTANCE / 4;
    if (fits && (candles.length - 1 - index) % every === 0) nodes.push(text(clock(candle.start), { class: "time", x: x(index), y: HEIGHT - 4 }));
  });
  return nodes;
}

/** Lowest and highest price with some air; never nothing, even if no price has moved. */
function range(candles: readonly Candle[]): [number, number] {
  const low = Math.min(...candles.map((candle) => candle.low));
  const high = Math.max(...candles.map((candle) => candle.high));
  const air = (high - low) * 0.06 || Math.abs(high) * 0.01 || 1;
  return [low - air, high + air];
}

function clock(moment: number): string {
  return new Date(moment).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

function description(candles: readonly Candle[]): string {
  const last = candles.at(-1);
  if (last === undefined) return "No candles yet";
  return `${candles.length} candles; the latest opened at ${last.open}, is at ${last.close}, between ${last.low} and ${last.high}`;
}

function node(name: string, attributes: Readonly<Record<string, string | number>>): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(typeof value === "number" ? Math.round(value * 10) / 10 : value));
  return made;
}

function text(words: string, attributes: Readonly<Record<string, string | number>>): SVGElement {
  const made = node("text", attributes);
  made.textContent = words;
  return made;
}
