// Numbers with a fixed count of digits after the point, so that columns of them line up.
// Not here: which columns those are (stocks.ts).
// Read next: table.ts.

/** Digits after the point of a price, and of a change in per cent. */
export const PRICE_DIGITS = 2;

/** What is no number stays as it is. */
export function fixed(value: string, digits: number = PRICE_DIGITS): string {
  return value === "" || Number.isNaN(Number(value)) ? value : Number(value).toFixed(digits);
}
