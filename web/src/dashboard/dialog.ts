// Dialogs: all values of one row, and a question before something is done.
// Not here: what is done (sessions.ts).

import { make } from "./make";
import { words } from "./format";
import type { Row } from "./grid";

export interface Action {
  readonly label: string;
  run(): void;
}

/** All values of a row, by name, and what can be done with it. */
export function showDetails(title: string, row: Row, actions: readonly Action[] = []): void {
  const facts = make("dl", { class: "details" });
  for (const [name, value] of Object.entries(row)) facts.append(make("dt", {}, name.replaceAll("_", " ")), make("dd", { "data-field": name }, words(value)));
  const dialog = opened(title, facts);
  const buttons = make("div", { class: "buttons" });
  for (const action of actions) {
    const button = make("button", { type: "button" }, action.label);
    button.addEventListener("click", () => {
      dialog.close();
      action.run();
    });
    buttons.append(button);
  }
  const close = make("button", { type: "button" }, "Close");
  close.addEventListener("click", () => dialog.close());
  buttons.append(close);
  dialog.append(buttons);
}

export interface Question {
  readonly title: string;
  readonly text: string;
  /** What the button says that does it. */
  readonly verb: string;
  /** A number to be typed in, which may be left empty. */
  readonly number?: string;
  /** Does it; an error stays on screen. Gets what was typed in. */
  run(typed: string): Promise<void>;
}

export function askFirst(question: Question): void {
  const input = make("input", { type: "number", min: "0.001", step: "any", inputmode: "decimal" });
  const problem = make("p", { class: "problem", role: "alert", hidden: true });
  const no = make("button", { type: "button" }, "Cancel");
  const yes = make("button", { type: "submit", class: "danger" }, question.verb);
  const form = make("form", { method: "dialog" }, make("p", {}, question.text));
  if (question.number !== undefined) form.append(make("label", {}, question.number, input));
  form.append(problem, make("div", { class: "buttons" }, yes, no));
  const dialog = opened(question.title, form);
  no.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    yes.disabled = true;
    question.run(input.value.trim()).then(
      () => dialog.close(),
      (error: unknown) => {
        yes.disabled = false;
        problem.textContent = error instanceof Error ? error.message : String(error);
        problem.hidden = false;
      },
    );
  });
}

function opened(title: string, ...content: Node[]): HTMLDialogElement {
  const dialog = make("dialog", { "aria-label": title }, make("h2", {}, title), ...content);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
