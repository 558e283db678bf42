// The two selectors, and the transport named in the page's address.
// Not here: what a choice does (connection.ts).
// Read next: main.ts.

import { FREQUENCIES, TRANSPORTS, type Frequency, type Transport } from "./connection";
import { element } from "./element";

const PARAMETER = "transport";

const TRANSPORT_WORDS: Readonly<Record<Transport, string>> = {
  auto: "Automatic",
  "WS-STREAMING": "WebSocket streaming",
  "HTTP-STREAMING": "HTTP streaming",
  "WS-POLLING": "WebSocket polling",
  "HTTP-POLLING": "HTTP polling",
};

const FREQUENCY_WORDS: Readonly<Record<Frequency, string>> = {
  unlimited: "No limit",
  "5": "5 a second",
  "1": "1 a second",
};

/** Fill the transport selector. Returns the transport to begin with; `unknown` hears of a value in the address that names none. */
export function transportControl(choose: (transport: Transport) => void, unknown: (complaint: string) => void): Transport {
  const asked = new URLSearchParams(location.search).get(PARAMETER);
  const first = TRANSPORTS.find((transport) => transport === asked) ?? "auto";
  if (asked !== null && first !== asked) unknown(`${PARAMETER}=${asked} in the address is not one of ${TRANSPORTS.join(", ")}`);
  fill(element("transport", HTMLSelectElement), TRANSPORTS, TRANSPORT_WORDS, first, (transport) => {
    rememberInAddress(transport);
    choose(transport);
  });
  return first;
}

export function frequencyControl(choose: (frequency: Frequency) => void): void {
  fill(element("frequency", HTMLSelectElement), FREQUENCIES, FREQUENCY_WORDS, "unlimited", choose);
}

function fill<V extends string>(
  select: HTMLSelectElement,
  values: readonly V[],
  words: Readonly<Record<V, string>>,
  first: V,
  choose: (value: V) => void,
): void {
  for (const value of values) select.add(new Option(words[value], value, value === first, value === first));
  select.addEventListener("change", () => {
    const value = values[select.selectedIndex];
    if (value !== undefined) choose(value);
  });
}

/** Keep the choice over a reload, and let it be passed on as a link. */
function rememberInAddress(transport: Transport): void {
  const address = new URL(location.href);
  if (transport === "auto") address.searchParams.delete(PARAMETER);
  else address.searchParams.set(PARAMETER, transport);
  history.replaceState(null, "", address);
}
