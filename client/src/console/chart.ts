/** The frame of a chart: axes with their names, and lines across it at round values. */
import { svg, svgText } from "../page/svg.js";
import { forTimes, fromZero, type Scale } from "./scale.js";

/** With `least` its values are times, which may lie far apart. */
export interface Axis {
  readonly title: string;
  readonly least?: number;
  readonly most: number;
  readonly text: (value: number) => string;
}

export interface Frame {
  readonly picture: SVGSVGElement;
  readonly x: Scale;
  readonly y: Scale;
}

const HEIGHT = 280;
const LEFT = 52;
const TOP = 26;
const BOTTOM = 44;

const NARROWEST = 300;
const WIDEST = 1280;
const AROUND = 74;

/** As wide as its card, so that text keeps its size. */
const width = (): number => Math.min(Math.max(innerWidth - AROUND, NARROWEST), WIDEST);

/** `summary` is what a screen reader says of the picture; a table tells the rest. */
export function frame(summary: string, across: Axis, up: Axis): Frame {
  const right = width() - 12;
  const x = fromZero(across.most, LEFT, right, { about: 6, round: false });
  const y = forTimes(up.least ?? 0, up.most, HEIGHT - BOTTOM, TOP);
  const picture = svg("svg", {
    class: "chart",
    viewBox: `0 0 ${width()} ${HEIGHT}`,
    role: "img",
    "aria-label": summary,
  });
  for (const value of y.ticks) {
    const at = y.at(value);
    picture.append(svg("line", { class: "grid", x1: LEFT, x2: right, y1: at, y2: at }));
    picture.append(svgText(LEFT - 8, at + 4, "tick end", up.text(value)));
  }
  for (const value of x.ticks) {
    picture.append(svgText(x.at(value), HEIGHT - BOTTOM + 18, "tick middle", across.text(value)));
  }
  picture.append(svgText(0, 12, "tick", up.title));
  picture.append(svgText(right, HEIGHT - 6, "tick end", across.title));
  return { picture, x, y };
}

/** Marks differ by shape too: colour alone is not for everyone. */
const SHAPES = [
  "M-4 -4H4V4H-4Z",
  "M0 -5L5 4H-5Z",
  "M0 -5L5 0L0 5L-5 0Z",
  "M-5 -1.5H-1.5V-5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5Z",
] as const;

export const CIRCLE = "M-4 0A4 4 0 1 1 4 0A4 4 0 1 1 -4 0Z";
export const DIAMOND = "M0 -7L7 0L0 7L-7 0Z";

export const shape = (index: number): string => SHAPES[index % SHAPES.length] ?? CIRCLE;

export function mark(d: string, x: number, y: number, className: string, told = ""): SVGElement {
  const made = svg("path", { d, class: className, transform: `translate(${x} ${y})` });
  if (told !== "") made.append(svg("title", {}, told));
  return made;
}

/** A mark beside its meaning. */
export function legend(entries: readonly (readonly [string, string, string])[]): HTMLElement {
  const list = document.createElement("ul");
  list.className = "legend";
  for (const [d, className, text] of entries) {
    const item = document.createElement("li");
    const picture = svg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" });
    picture.append(mark(d, 0, 0, className));
    item.append(picture, ` ${text}`);
    list.append(item);
  }
  return list;
}
