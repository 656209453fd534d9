/** The best rate so far, as steps: over rounds of tuning, or over seconds. */
import { element } from "../page/elements.js";
import { svg } from "../page/svg.js";
import { count, rate } from "../page/text.js";
import type { Curve } from "../wire/types.js";
import { frame, legend, mark, shape } from "./chart.js";
import { classDetail, deviceName } from "./pieces.js";

export type Horizontal = "rounds" | "time";

type Point = Curve["points"][number];

const LOOKS = 4;

export function curveChart(curves: readonly Curve[], across: Horizontal): HTMLElement {
  const place = across === "time" ? byTime : byRound;
  const end = across === "time" ? (each: Curve) => each.elapsed_s : rounds;
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
      const told = `${rate(point.gflops)} in round ${point.round} after ${point.elapsed_s.toFixed(1)} s`;
      picture.append(mark(shape(index), atX, atY, `point ${look}`, told));
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
  const [first, ...rest] = steps;
  if (first === undefined) return "";
  const drawn = rest.map(([x, y]) => `H${x}V${y}`).join("");
  return `M${first[0]} ${first[1]}${drawn}H${to}`;
}
