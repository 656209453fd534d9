/** A part of a view that shows what one address answers, and asks again while it can be seen. */
import { element } from "../page/elements.js";
import { get } from "./request.js";

export interface Followed<T> {
  readonly path: string;
  /** The wait between an answer and the next request. */
  readonly everyMs: number;
  readonly draw: (value: T) => Node;
}

/** The part; it shows that it loads, what was answered, or what went wrong. Ends with `signal`. */
export function followed<T>(what: Followed<T>, signal: AbortSignal): HTMLElement {
  const content = element("div", "", loading());
  const problem = element("div", "");
  problem.setAttribute("role", "alert");
  let shown = "";
  let show: () => void = () => undefined;

  const read = async (): Promise<void> => {
    const answer = await get<T>(what.path, signal);
    problem.replaceChildren();
    if (answer.kind === "ok") {
      const text = JSON.stringify(answer.value);
      show = () => redraw(content, what.draw(answer.value));
      if (text !== shown) show();
      shown = text;
    } else if (answer.kind !== "empty") {
      if (shown === "") content.replaceChildren();
      problem.append(failure(answer.detail, answer.kind === "refused", again));
    }
  };
  const again = (): void => {
    void read().catch(() => undefined);
  };
  void keepReading(read, what.everyMs, signal);
  onWidth(() => show(), signal);
  return element("div", "", problem, content);
}

/** Charts are drawn for a width: stretched, their text would be tiny on a phone that is turned. */
function onWidth(changed: () => void, signal: AbortSignal): void {
  let width = innerWidth;
  const look = (): void => {
    if (innerWidth === width) return;
    width = innerWidth;
    changed();
  };
  addEventListener("resize", look, { signal });
}

/** Waits while the page is hidden: a console in a forgotten tab asks for nothing. */
async function keepReading(
  read: () => Promise<void>,
  everyMs: number,
  signal: AbortSignal,
): Promise<void> {
  try {
    while (!signal.aborted) {
      await read();
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      await visible();
    }
  } catch (cause) {
    if (!signal.aborted) throw cause;
  }
}

function visible(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) =>
    document.addEventListener("visibilitychange", () => resolve(), { once: true }),
  );
}

/** Puts `made` in place; what is open stays open, and what had the focus has it again. */
function redraw(place: HTMLElement, drawing: Node): void {
  const open = [...place.querySelectorAll<HTMLDetailsElement>("details[id][open]")];
  const focused = place.contains(document.activeElement) ? document.activeElement?.id : "";
  place.replaceChildren(drawing);
  for (const { id } of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function loading(): HTMLElement {
  return element("p", "quiet", "Loading…");
}

function failure(detail: string, refused: boolean, again: () => void): HTMLElement {
  const button = element("button", "plain", "Try again");
  button.type = "button";
  button.addEventListener("click", again);
  const what = refused ? "The gateway refused: " : "This could not be read: ";
  return element("div", "notice bad", element("p", "", what, detail), button);
}
