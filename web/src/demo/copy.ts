// A command that people can copy.
// Not here: the commands (the tabs).
// Read next: ../market/market.ts.

/** Show the command, and offer to copy it where that can be: on https and on this machine; elsewhere people select the text. */
export function copyable(code: HTMLElement, button: HTMLButtonElement, command: string): void {
  code.textContent = command;
  button.hidden = !window.isSecureContext;
  button.textContent = "Copy";
  button.onclick = () => {
    navigator.clipboard.writeText(command).then(
      () => (button.textContent = "Copied"),
      () => (button.textContent = "Not allowed"),
    );
  };
}
