/**
 * Elements of a page, of HTML and of SVG. Text is always set as text, never as markup; the look is
 * in the stylesheet, as a content security policy forbids style attributes.
 */

type Child = Node | string;

/** An element with a class and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className: string,
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  if (className !== "") node.className = className;
  node.append(...children);
  return node;
}

/** The element with `id`, which the page's HTML has. */
export function byId(id: string): HTMLElement {
  const node = document.getElementById(id);
  if (node === null) throw new Error(`The page has no element #${id}.`);
  return node;
}

/** Sets text only when it differs, so that a selection and a screen reader are left in peace. */
export function setText(id: string, text: string): void {
  const target = byId(id);
  if (target.textContent !== text) target.textContent = text;
}

export function show(id: string, visible: boolean): void {
  byId(id).hidden = !visible;
}

type Attributes = Readonly<Record<string, string | number>>;

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes,
  ...children: readonly (Node | string)[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

export const svgText = (x: number, y: number, className: string, text: string): SVGTextElement =>
  svg("text", { x, y, class: className }, text);
