// Figures for people: numbers, sizes, times. What is missing is a dash.
// Not here: which figure is shown where.

export const NOTHING = "–";

export type Format = (value: string | null) => string;

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function figure(value: string | null, show: (number: number) => string): string {
  const number = value === null || value === "" ? NaN : Number(value);
  return Number.isFinite(number) ? show(number) : (value ?? NOTHING) || NOTHING;
}

export const words: Format = (value) => (value === null || value === "" ? NOTHING : value);
export const number: Format = (value) => figure(value, (found) => (Math.abs(found) < 100_000 ? plain.format(found) : short.format(found)));
export const rate: Format = (value) => figure(value, (found) => `${number(String(found))}/s`);
export const millis: Format = (value) => figure(value, (found) => (found < 10_000 ? `${plain.format(found)} ms` : `${plain.format(found / 1000)} s`));
export const percent: Format = (value) => figure(value, (found) => `${plain.format(found)} %`);
export const kbits: Format = (value) => figure(value, (found) => (found < 10_000 ? `${plain.format(found)} kbit/s` : `${plain.format(found / 1000)} Mbit/s`));

export const bytes: Format = (value) =>
  figure(value, (found) => {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (found >= 1000 && unit < units.length - 1) {
      found /= 1000;
      unit += 1;
    }
    return `${plain.format(found)} ${units[unit]}`;
  });

export const clock: Format = (value) =>
  figure(value, (found) => new Date(found).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }));

export const moment: Format = (value) => figure(value, (found) => new Date(found).toLocaleString());

const DAY = 86_400_000;

/** The time if it was within a day, else the date. */
export const when: Format = (value) => (Date.now() - Number(value) < DAY ? clock(value) : figure(value, (found) => new Date(found).toLocaleDateString()));

/** Values of a row as people read them, by the formats that there are. */
export function formatted(row: Readonly<Record<string, string | null>>, formats: Readonly<Record<string, Format>>): Record<string, string | null> {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, formats[name]?.(value) ?? value]));
}
