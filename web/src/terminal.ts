// The command below the table that reads the same stream without a browser.
// Not here: the page's own connection (connection.ts).
// Read next: the TLCP specification, "create_session".

import { serverAddress } from "./connection";
import { element } from "./element";
import { ADAPTER_SET, DATA_ADAPTER } from "./stocks";

/** The client id that the TLCP specification gives to hand-written clients, percent-encoded. */
const CLIENT_ID = "mgQkwtwdysogQz2BJ4Ji%20kOj2Bg";

const REQUEST = [
  `LS_adapter_set=${ADAPTER_SET}`,
  `LS_cid=${CLIENT_ID}`,
  "LS_op=add",
  "LS_subId=1",
  `LS_data_adapter=${DATA_ADAPTER}`,
  "LS_group=item2",
  "LS_schema=stock_name%20time%20last_price",
  "LS_mode=MERGE",
  "LS_snapshot=true",
].join("&");

export function showCommand(): void {
  // A path may contain an apostrophe, which would end the shell's quotation.
  const address = serverAddress().replaceAll("'", "%27");
  const command = `curl -N -d '${REQUEST}' '${address}lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0'`;
  element("curl", HTMLElement).textContent = command;
  offerCopy(command);
}

function offerCopy(command: string): void {
  // Browsers offer a clipboard only on https and on this machine; elsewhere people select the text.
  if (!window.isSecureContext) return;
  const button = element("copy", HTMLButtonElement);
  button.hidden = false;
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(command).then(
      () => (button.textContent = "Copied"),
      () => (button.textContent = "Not allowed"),
    );
  });
}
