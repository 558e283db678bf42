// Dialogs: all values of one row, and a question before something is done.
// Not here: what is done (sessions.ts, subscriptions.ts, blocks.ts, control.ts).

import { make } from "./make";
import { words } from "./format";
import type { Row } from "./grid";

export interface Action {
  readonly label: string;
  run(): void;
}

export function actionButton(action: Action): HTMLButtonElement {
  const button = make("button", { type: "button" }, action.label);
  button.addEventListener("click", () => action.run());
  return button;
}

/** All values of a row, by name, and what can be done with it. `more` is shown below them; a button in it that has been used closes the dialog. */
export function showDetails(title: string, row: Row, actions: readonly Action[] = [], more?: HTMLElement): void {
  const facts = make("dl", { class: "details" });
  for (const [name, value] of Object.entries(row)) facts.append(make("dt", {}, readable(name)), make("dd", { "data-field": name }, words(value)));
  const dialog = opened(title, facts);
  if (more !== undefined) {
    // Before the button's own listener, which may open the next dialog.
    more.addEventListener("click", (event) => event.target instanceof HTMLButtonElement && dialog.close(), { capture: true });
    dialog.append(more);
  }
  const buttons = make("div", { class: "buttons" });
  for (const action of actions) {
    buttons.append(
      actionButton({
        label: action.label,
        run: () => {
          dialog.close();
          action.run();
        },
      }),
    );
  }
  const close = make("button", { type: "button" }, "Close");
  close.addEventListener("click", () => dialog.close());
  buttons.append(close);
  dialog.append(buttons);
}

/** The name of a field for people: times and rates are shown with what they are. */
function readable(field: string): string {
  return field
    .replace(/_ms$/i, "")
    .replace(/_sec$/, "/s")
    .replace(/_millis$/, " (ms)")
    .replaceAll("_", " ");
}

/** Something to be typed or chosen before it is done. Its value is text; that of a check is "yes" or empty. */
export interface Field {
  readonly name: string;
  readonly label: string;
  readonly kind: "number" | "text" | "check" | "choice";
  /** Of a choice: what is sent, and what is shown. */
  readonly choices?: Readonly<Record<string, string>>;
  readonly value?: string;
  /** Of a number: the smallest. */
  readonly least?: number;
  readonly required?: boolean;
}

export type Typed = Readonly<Record<string, string>>;

export interface Question {
  readonly title: string;
  readonly text: string;
  /** What the button says that does it. */
  readonly verb: string;
  readonly fields?: readonly Field[];
  /** Does it; an error stays on screen. Gets what was typed in, by the names of the fields. */
  run(typed: Typed): Promise<void>;
}

export function askFirst(question: Question): void {
  const problem = make("p", { class: "problem", role: "alert", hidden: true });
  const no = make("button", { type: "button" }, "Cancel");
  const yes = make("button", { type: "submit", class: "danger" }, question.verb);
  const form = make("form", { method: "dialog" }, make("p", {}, question.text));
  const fields = (question.fields ?? []).map((field) => [field, input(field)] as const);
  for (const [field, node] of fields) form.append(field.kind === "check" ? make("label", { class: "check" }, node, field.label) : make("label", {}, field.label, node));
  form.append(problem, make("div", { class: "buttons" }, yes, no));
  const dialog = opened(question.title, form);
  no.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    yes.disabled = true;
    question.run(Object.fromEntries(fields.map(([field, node]) => [field.name, valueOf(node)]))).then(
      () => dialog.close(),
      (error: unknown) => {
        yes.disabled = false;
        problem.textContent = error instanceof Error ? error.message : String(error);
        problem.hidden = false;
      },
    );
  });
}

function input(field: Field): HTMLInputElement | HTMLSelectElement {
  const { kind, name, value = "", required = false } = field;
  if (kind === "check") return make("input", { type: "checkbox", name });
  if (kind === "text") return make("input", { type: "text", name, value, required, autocomplete: "off", autocapitalize: "none" });
  if (kind === "number") return make("input", { type: "number", name, value, required, min: String(field.least ?? 0), step: "any", inputmode: "decimal" });
  const select = make("select", { name });
  for (const [each, label] of Object.entries(field.choices ?? {})) select.add(new Option(label, each, each === value, each === value));
  return select;
}

function valueOf(node: HTMLInputElement | HTMLSelectElement): string {
  if (node instanceof HTMLInputElement && node.type === "checkbox") return node.checked ? "yes" : "";
  return node.value.trim();
}

function opened(title: string, ...content: Node[]): HTMLDialogElement {
  const dialog = make("dialog", { "aria-label": title }, make("h2", {}, title), ...content);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
