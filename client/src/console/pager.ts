/** Lists in pages: short ones on a phone, where each row is a card. */
import { element } from "../page/elements.js";
import { count, integer } from "../page/text.js";
import { link } from "./pieces.js";
import { address, type Route, type ViewName } from "./route.js";

const WIDE = 50;
const NARROW = 8;

export const pageSize = (): number => (matchMedia("(max-width: 44rem)").matches ? NARROW : WIDE);

export const offsetOf = (query: Route["query"]): number =>
  Math.max(0, Math.trunc(Number(query.offset ?? 0)) || 0);

export interface Page {
  readonly view: ViewName;
  readonly query: Route["query"];
  readonly size: number;
  /** So many rows are shown, of so many. */
  readonly shown: number;
  readonly total: number;
  readonly what: string;
}

/** Shows where the page is in its list, with links to the next ones. */
export function pager({ view, query, size, shown, total, what }: Page): HTMLElement {
  const offset = offsetOf(query);
  const last = offset + shown;
  const range = shown === 0 ? "" : `${integer(offset + 1)} to ${integer(last)} of `;
  const turn = element("nav", "turn", element("span", "quiet", `${range}${count(total, what)}`));
  turn.setAttribute("aria-label", "Pages of the list");
  const to = (text: string, at: number): HTMLElement =>
    link(address(view, [], { ...query, offset: at > 0 ? String(at) : "" }), text);
  if (offset > 0) turn.append(to("Newer", offset - size));
  if (last < total) turn.append(to("Older", last));
  return turn;
}
