/** The candidates of a key: time against rank. */
import { element } from "../page/elements.js";
import { count, duration, rate } from "../page/text.js";
import type { CandidateStanding } from "../wire/types.js";
import { CIRCLE, DIAMOND, frame, legend, mark, shape } from "./chart.js";

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
    const told = `${index + 1}: ${duration(standing.best_ns)}, ${rate(standing.gflops)}`;
    return mark(d, x.at(index + 1), y.at(standing.best_ns), className, told);
  };
  const marks = timed.map(draw);
  const last = (each: SVGElement): boolean => !each.classList.contains("plain-mark");
  picture.append(...marks.filter((each) => !last(each)), ...marks.filter(last));
  const drawn = new Set(marks.map((each) => each.getAttribute("class")));
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
