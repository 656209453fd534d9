/**
 * Charts: axes with round values, the frame that they make, and the two pictures of the console,
 * which are the best rate so far and the candidates of a key by rank.
 */
import { element, svg, svgText } from "../page/elements.js";
import { count, duration, rate } from "../page/text.js";
import type { CandidateStanding, Curve } from "../wire/types.js";
import { classDetail, deviceName } from "./pieces.js";

export interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

/**
 * From 0 to `most`, or with `round` to the round value at or above it. `from` and `to` are places
 * in the picture, `about` says how many ticks there are.
 */
export function fromZero(
  most: number,
  from: number,
  to: number,
  { about = 4, round = true } = {},
): Scale {
  const last = most > 0 ? most : 1;
  const step = roundStep(last / about);
  const steps = round ? Math.ceil(last / step - 1e-9) : Math.floor(last / step + 1e-9);
  const end = round ? step * steps : last;
  const ticks = Array.from({ length: steps + 1 }, (_, i) => Number((i * step).toPrecision(12)));
  return { at: (value) => from + ((to - from) * value) / end, ticks };
}

/** Values may lie so far apart before a linear axis presses most of them onto its end. */
const FACTOR = 8;
const DIGITS = [1, 2, 5] as const;

/**
 * A linear axis from 0 where that shows the values apart, else a logarithmic one. Times are above
 * 0.
 */
export function forTimes(least: number, most: number, from: number, to: number): Scale {
  return least > 0 && most > FACTOR * least
    ? byFactors(least, most, from, to)
    : fromZero(most, from, to);
}

/** The round values at or below `least` and at or above `most` are its ends. */
function byFactors(least: number, most: number, from: number, to: number): Scale {
  const decades = Math.log10(most / least);
  const digits = decades > 2 ? DIGITS.slice(0, 1) : DIGITS;
  const all = Array.from({ length: Math.ceil(decades) + 2 }, (_, i) =>
    digits.map((digit) =>
      Number((digit * 10 ** (Math.floor(Math.log10(least)) + i)).toPrecision(1)),
    ),
  ).flat();
  const first = all.findLastIndex((tick) => tick <= least);
  const last = all.findIndex((tick) => tick >= most);
  const ticks = all.slice(first, last + 1);
  const [low, high] = [Math.log(ticks[0] ?? least), Math.log(ticks.at(-1) ?? most)];
  return { at: (value) => from + ((to - from) * (Math.log(value) - low)) / (high - low), ticks };
}

/** The least of 1, 2 and 5 times a power of ten that is not below `step`. */
function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const digit = [1, 2, 5, 10].find((factor) => factor * power >= step * (1 - 1e-9)) ?? 10;
  return digit * power;
}

/** An axis; with `least` its values are times, which may lie far apart. */
export interface ChartAxis {
  readonly title: string;
  readonly least?: number;
  readonly most: number;
  readonly text: (value: number) => string;
}

export interface ChartFrame {
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

/** The width of the card, so that text keeps its size. */
const width = (): number => Math.min(Math.max(innerWidth - AROUND, NARROWEST), WIDEST);

/** `summary` is what a screen reader says of the picture; a table tells the rest. */
export function frame(summary: string, across: ChartAxis, up: ChartAxis): ChartFrame {
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

export function mark(d: string, x: number, y: number, className: string, title = ""): SVGElement {
  const drawing = svg("path", { d, class: className, transform: `translate(${x} ${y})` });
  if (title !== "") drawing.append(svg("title", {}, title));
  return drawing;
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

export type Horizontal = "rounds" | "time";

type Point = Curve["points"][number];

const LOOKS = 4;

export function curveChart(curves: readonly Curve[], across: Horizontal): HTMLElement {
  const place = across === "time" ? byTime : byRound;
  const end = across === "time" ? (curve: Curve) => curve.elapsed_s : rounds;
  const best = Math.max(...curves.flatMap(({ points }) => points.map(({ gflops }) => gflops)));
  const { picture, x, y } = frame(
    `Best rate so far of ${count(curves.length, "device class", "device classes")}, ` +
      `at the end ${rate(best)}.`,
    {
      title: across === "time" ? "Seconds since the first lease" : "Rounds: measurements so far",
      most: Math.max(...curves.map(end)),
      text: String,
    },
    { title: "GFLOP/s", most: best, text: String },
  );
  curves.forEach((curve, index) => {
    const look = `line-${index % LOOKS}`;
    const to = x.at(end(curve));
    const steps = curve.points.map((point) => [x.at(place(point)), y.at(point.gflops)] as const);
    picture.append(svg("path", { class: `step ${look}`, d: path(steps, to) }));
    steps.forEach(([atX, atY], step) => {
      const point = curve.points[step];
      if (point === undefined) return;
      const title = `${rate(point.gflops)} in round ${point.round} after ${point.elapsed_s.toFixed(1)} s`;
      picture.append(mark(shape(index), atX, atY, `point ${look}`, title));
    });
  });
  return element("div", "", picture, names(curves));
}

function names(curves: readonly Curve[]): HTMLElement {
  return legend(
    curves.map(({ device }, index) => [
      shape(index),
      `point line-${index % LOOKS}`,
      `${deviceName(device)} (${classDetail(device.device_class)})`,
    ]),
  );
}

const byRound = ({ round }: Point): number => round;
const byTime = ({ elapsed_s }: Point): number => elapsed_s;
const rounds = ({ outcomes }: Curve): number =>
  outcomes.reduce((sum, { measurements }) => sum + measurements, 0);

/** A rate holds until a better one is found. */
function path(steps: readonly (readonly [number, number])[], to: number): string {
  const [first, ...later] = steps;
  if (first === undefined) return "";
  const drawn = later.map(([x, y]) => `H${x}V${y}`).join("");
  return `M${first[0]} ${first[1]}${drawn}H${to}`;
}

interface Timed extends CandidateStanding {
  readonly best_ns: number;
}

const isTimed = (standing: CandidateStanding): standing is Timed => standing.best_ns !== null;

const MEANINGS = [
  [DIAMOND, "served-mark", "served"],
  [shape(0), "reference-mark", "reference"],
  [CIRCLE, "plain-mark voted", "named in a ballot"],
  [CIRCLE, "plain-mark", "measured"],
] as const;

/** `standings`: the fastest first. `served` and `reference` are candidates. */
export function rankChart(
  standings: readonly CandidateStanding[],
  served: string,
  reference: string,
): HTMLElement {
  const timed = standings.filter(isTimed);
  const failed = standings.length - timed.length;
  const fastest = timed[0]?.best_ns ?? 1;
  const slowest = timed.at(-1)?.best_ns ?? 1;
  const { picture, x, y } = frame(
    `Time against rank of ${count(timed.length, "candidate")}: the fastest takes ` +
      `${duration(fastest)}, the slowest ${duration(slowest)}.`,
    { title: "Rank", most: timed.length, text: (value) => (value === 0 ? "" : String(value)) },
    { title: "Time", least: fastest, most: slowest, text: (ns) => (ns === 0 ? "0" : duration(ns)) },
  );
  const draw = (standing: Timed, index: number): SVGElement => {
    const [d, className] = look(standing, served, reference);
    const title = `${index + 1}: ${duration(standing.best_ns)}, ${rate(standing.gflops)}`;
    return mark(d, x.at(index + 1), y.at(standing.best_ns), className, title);
  };
  const marks = timed.map(draw);
  const last = (drawing: SVGElement): boolean => !drawing.classList.contains("plain-mark");
  picture.append(...marks.filter((drawing) => !last(drawing)), ...marks.filter(last));
  const drawn = new Set(marks.map((drawing) => drawing.getAttribute("class")));
  const meaning = legend(MEANINGS.filter(([, className]) => drawn.has(className)));
  const note = failed === 0 ? "" : `${count(failed, "candidate")} failed and stand in the table.`;
  return element("div", "", picture, meaning, element("p", "quiet", note));
}

function look(standing: Timed, served: string, reference: string): readonly [string, string] {
  if (standing.candidate === served) return [DIAMOND, "served-mark"];
  if (standing.candidate === reference) return [shape(0), "reference-mark"];
  const voted = standing.votes.some((votes) => votes > 0);
  return [CIRCLE, voted ? "plain-mark voted" : "plain-mark"];
}
