// Finding the page's own elements by id, with their type.
// Not here: creating elements (table.ts, controls.ts).
// Read next: index.html.

/** The element with this id. Throws when the page and the script disagree, so that a typing error cannot stay hidden. */
export function element<E extends HTMLElement>(id: string, kind: new () => E): E {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`#${id}: expected ${kind.name}, found ${found?.constructor.name ?? "nothing"}`);
  return found;
}
