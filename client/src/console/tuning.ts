/** Jobs, and of one job how its best kernel was found: nnJIT's Figures 13 and 16. */
import { element } from "../page/elements.js";
import { count, integer, milliseconds, rate } from "../page/text.js";
import type { Curve, Job, JobList, JobProgress, OutcomeCount } from "../wire/types.js";
import { curveChart, type Horizontal } from "./chart.js";
import { followed } from "./followed.js";
import { compiledBar, jobState, jobTable, jobTarget } from "./jobs.js";
import { keptBack } from "./operator.js";
import { offsetOf, pager, pageSize } from "./pager.js";
import {
  type Cell,
  type Column,
  card,
  classCell,
  code,
  empty,
  facts,
  keyLink,
  link,
  table,
} from "./pieces.js";
import { registerForm } from "./register.js";
import { aboutRho } from "./rho.js";
import { address, type Route } from "./route.js";
import { timelineView } from "./timeline.js";

export function tuningView(route: Route, signal: AbortSignal): readonly HTMLElement[] {
  const timeline = timelineView(route, signal);
  if (timeline !== null) return timeline;
  const [job] = route.path;
  if (job !== undefined) return jobView(job, route.query, signal);
  const size = pageSize();
  const list = followed<JobList>(
    {
      path: `/v1/jobs?limit=${size}&offset=${offsetOf(route.query)}`,
      everyMs: 5_000,
      draw: ({ jobs, total }) => {
        const page = { view: "tuning", query: route.query, size, what: "job" } as const;
        const turn = pager({ ...page, shown: jobs.length, total });
        return element("div", "", jobTable(jobs, "Jobs, the newest first"), turn);
      },
    },
    signal,
  );
  return [card("Jobs", registerForm(), list)];
}

function jobView(job: string, query: Route["query"], signal: AbortSignal): readonly HTMLElement[] {
  const across: Horizontal = query.across === "time" ? "time" : "rounds";
  const path = `/v1/jobs/${encodeURIComponent(job)}/progress`;
  const draw = (value: JobProgress): Node => drawProgress(value, across);
  return [
    element("p", "", link(address("tuning"), "All jobs")),
    followed<JobProgress>({ path, everyMs: 2_000, draw }, signal),
  ];
}

function drawProgress(progress: JobProgress, across: Horizontal): Node {
  return element(
    "div",
    "",
    element("section", "card", ...summary(progress.job)),
    card("Best kernel so far", ...curve(progress, across)),
    card("Measurements by outcome", outcomes(progress.curves)),
  );
}

function summary(job: Job): readonly HTMLElement[] {
  const best = job.best_ns === null ? null : job.flops / job.best_ns;
  const compile = job.compile_ms_median;
  return [
    element("h2", "key", code(job.workload)),
    element("p", "", `${jobTarget(job)}, ${jobState(job)}`),
    facts([
      ["Compiled", compiledBar(job)],
      ["Compile time, median", compile === null ? "–" : milliseconds(compile)],
      ["Best of all classes", rate(best)],
      ["Agents", integer(job.agents)],
      ["Measurements", integer(job.measurements)],
      ["Ballots", integer(job.ballots)],
    ]),
  ];
}

function curve({ curves, quorum, job }: JobProgress, across: Horizontal): readonly HTMLElement[] {
  const shown = curves.filter((curve) => curve.shown && curve.points.length > 0);
  const hidden = curves.filter((curve) => !curve.shown);
  const back = hidden.map(({ device, candidates }) =>
    keptBack(device.identities, quorum, `${count(candidates, "candidate")} were measured`),
  );
  if (curves.length === 0) {
    const remedy = link(address("invite"), "Tune a device");
    return [empty("No agent has measured this job yet.", remedy)];
  }
  if (shown.length === 0) return back;
  return [
    switches(job, across),
    curveChart(shown, across),
    classes(shown, job),
    aboutRho(),
    ...back,
  ];
}

function switches({ job }: Job, across: Horizontal): HTMLElement {
  const choice = (name: Horizontal, text: string): HTMLElement => {
    const anchor = link(address("tuning", [String(job)], { across: name }), text);
    if (name === across) anchor.setAttribute("aria-current", "true");
    return anchor;
  };
  const switches = element(
    "nav",
    "choice",
    choice("rounds", "By rounds"),
    choice("time", "By time"),
  );
  switches.setAttribute("aria-label", "Horizontal axis");
  return switches;
}

function classes(curves: readonly Curve[], { workload }: Job): HTMLElement {
  const last = ({ points }: Curve) => points.at(-1);
  const columns: readonly Column<Curve>[] = [
    {
      title: "Device",
      cell: ({ device }) => classCell(device),
    },
    { title: "Best", numeric: true, cell: (curve) => rate(last(curve)?.gflops ?? null) },
    {
      title: "Found in round",
      numeric: true,
      cell: (curve) => integer(last(curve)?.round ?? 0),
    },
    {
      title: "Found after",
      numeric: true,
      cell: (curve) => milliseconds(1000 * (last(curve)?.elapsed_s ?? 0)),
    },
    { title: "First kernel", numeric: true, cell: ({ points }) => rate(points[0]?.gflops ?? null) },
    { title: "Candidates", numeric: true, cell: ({ candidates }) => integer(candidates) },
    { title: "Key", cell: ({ device }) => keyLink(workload, device.device_class) },
  ];
  return table("Best kernel by device class", columns, curves);
}

const STAGES = {
  ok: "measured",
  validate: "refused by the browser",
  compile: "not compiled by the browser",
  run: "failed to run",
  compare: "computed wrongly",
  timeout: "took too long",
  rejected: "refused by the check of its output",
} as const satisfies Record<OutcomeCount["outcome"], string>;

function outcomes(curves: readonly Curve[]): Cell {
  const all = curves.flatMap((curve) =>
    curve.outcomes.map((of) => ({ ...of, device: curve.device })),
  );
  const seen = all.filter(({ measurements }) => measurements > 0);
  if (seen.length === 0) return empty("Nothing has been measured yet.");
  const columns: readonly Column<(typeof seen)[number]>[] = [
    { title: "Device", cell: ({ device }) => classCell(device) },
    { title: "Stage", cell: ({ outcome }) => outcome },
    { title: "Meaning", cell: ({ outcome }) => STAGES[outcome] },
    { title: "Measurements", numeric: true, cell: ({ measurements }) => integer(measurements) },
  ];
  return table("Measurements by outcome", columns, seen);
}
