/** A few functions to build a page; text is always set as text, never as markup. */

type Child = Node | string;

/** An element with a class and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className: string,
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (className !== "") made.className = className;
  made.append(...children);
  return made;
}

/** The element with `id`, which the page's HTML has. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`The page has no element #${id}.`);
  return found;
}

/** Sets text only when it differs, so that a selection and a screen reader are left in peace. */
export function setText(id: string, text: string): void {
  const target = byId(id);
  if (target.textContent !== text) target.textContent = text;
}

export function show(id: string, visible: boolean): void {
  byId(id).hidden = !visible;
}
