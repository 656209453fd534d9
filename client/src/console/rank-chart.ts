/** The candidates of a key: time against rank. */
import { element } from "../page/elements.js";
import { count, duration, rate } from "../page/text.js";
import type { CandidateStanding } from "../wire/types.js";
import { CIRCLE, DIAMOND, frame, legend, mark, shape } from "./chart.js";

interface Timed extends CandidateStanding {
  readonly best_ns: number;
}

const isTimed = (standing: CandidateStanding): standing is Timed => standing.best_ns !== null;

const UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
] as const;

/** The largest unit in which the slowest is at least 1. */
const unitFor = (ns: number): readonly [number, string] =>
  UNITS.find(([size]) => ns >= size) ?? [1, "ns"];

/** `standings`: the fastest first. `served` and `reference` are candidates. */
export function rankChart(
  standings: readonly CandidateStanding[],
  served: string,
  reference: string,
): HTMLElement {
  const timed = standings.filter(isTimed);
  const failed = standings.length - timed.length;
  const slowest = timed.at(-1)?.best_ns ?? 1;
  const [size, unit] = unitFor(slowest);
  const { picture, x, y } = frame(
    `Time against rank of ${count(timed.length, "candidate")}: the fastest takes ` +
      `${duration(timed[0]?.best_ns ?? null)}, the slowest ${duration(slowest)}.`,
    { title: "Rank", most: timed.length, text: (value) => (value === 0 ? "" : String(value)) },
    { title: `Time in ${unit}`, most: slowest / size, text: String },
  );
  const draw = (standing: Timed, index: number): SVGElement => {
    const [d, className] = look(standing, served, reference);
    const told = `${index + 1}: ${duration(standing.best_ns)}, ${rate(standing.gflops)}`;
    return mark(d, x.at(index + 1), y.at(standing.best_ns / size), className, told);
  };
  const marks = timed.map(draw);
  const last = (each: SVGElement): boolean => !each.classList.contains("plain-mark");
  picture.append(...marks.filter((each) => !last(each)), ...marks.filter(last));
  const meaning = legend([
    [DIAMOND, "served-mark", "served"],
    [shape(0), "reference-mark", "reference"],
    [CIRCLE, "plain-mark voted", "named in a ballot"],
    [CIRCLE, "plain-mark", "measured"],
  ]);
  const note = failed === 0 ? "" : `${count(failed, "candidate")} failed and stand in the table.`;
  return element("div", "", picture, meaning, element("p", "quiet", note));
}

function look(standing: Timed, served: string, reference: string): readonly [string, string] {
  if (standing.candidate === served) return [DIAMOND, "served-mark"];
  if (standing.candidate === reference) return [shape(0), "reference-mark"];
  const voted = standing.votes.some((votes) => votes > 0);
  return [CIRCLE, voted ? "plain-mark voted" : "plain-mark"];
}
