/** SVG elements; the look is in the stylesheet, as a content security policy forbids style attributes. */

type Attributes = Readonly<Record<string, string | number>>;

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes,
  ...children: readonly (Node | string)[]
): SVGElementTagNameMap[K] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

export const svgText = (x: number, y: number, className: string, text: string): SVGTextElement =>
  svg("text", { x, y, class: className }, text);
