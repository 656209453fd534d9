/** Draws the state of the agent in its page, and reads the form of the budget. */
import { byId, element, setText, show } from "../page/elements.js";
import { count, milliseconds, rate, short, span, speedup } from "../page/text.js";
import type { MeasuredTarget } from "../wire/types.js";
import { type Budget, budgetMs, type Intensity, isLimited, type Lending } from "./budget.js";
import { PAUSES } from "./pauses.js";
import { renderProfile } from "./request-log.js";
import type { AgentState, Bar, SessionEvent, WorkloadState } from "./state.js";

const BARS_SHOWN = 96;
/** Bars have this many places at least, so that one alone is not as wide as the chart. */
const PLACES = 24;
const SVG = "http://www.w3.org/2000/svg";

const PHASES = {
  consent: "Not started",
  starting: "Getting to know this device…",
  asking: "Waiting for your answer",
  waiting: "Waiting for candidates",
  measuring: "Measuring",
  paused: "Paused",
  refused: "Nothing can be measured in this browser",
} as const satisfies Record<AgentState["phase"], string>;

function status({ phase, current, error, pausedBy }: AgentState): string {
  if (phase === "paused" && pausedBy !== null) return PAUSES[pausedBy];
  if (phase === "starting" && error !== null) return "Waiting for the gateway";
  if (phase !== "measuring" || current === null) return PHASES[phase];
  return `${PHASES[phase]} candidate ${short(current.candidate)}`;
}

/**
 * Returns what a screen reader is told: it changes a few times in a visit and names no candidate.
 * Errors are an alert of their own.
 */
function announcement(state: AgentState): string {
  const { phase, pausedBy, workloads } = state;
  if (phase === "paused" && pausedBy !== null) return PAUSES[pausedBy];
  if (phase !== "measuring" && phase !== "waiting") return PHASES[phase];
  const decided = workloads.filter(({ ballot }) => ballot?.final === true).length;
  const done = decided === 0 ? "" : ` ${count(decided, "workload")} decided.`;
  return `Measuring in the background.${done}`;
}

/** A bar as high as its share of `full` GFLOP/s; a failure is a short red one. */
function bar({ candidate, outcome, gflops, detail }: Bar, full: number, best: number | null) {
  const drawn = element("i", outcome !== "ok" ? "failed" : gflops === best ? "best" : "");
  const share = gflops === null ? 0.06 : gflops / full;
  drawn.style.height = `${(100 * share).toFixed(1)}%`;
  drawn.title = `${short(candidate)}: ${outcome === "ok" ? rate(gflops) : `${outcome}. ${detail}`}`;
  return drawn;
}

/** The best rate so far, candidate by candidate, over the bars. */
function bestCurve(bars: readonly Bar[], full: number): SVGElement {
  let best = 0;
  const points = bars.map(({ gflops }, i) => {
    best = Math.max(best, gflops ?? 0);
    return `${i},${(1 - best / full).toFixed(4)} ${i + 1},${(1 - best / full).toFixed(4)}`;
  });
  const curve = document.createElementNS(SVG, "svg");
  curve.setAttribute("viewBox", `0 0 ${Math.max(bars.length, PLACES)} 1`);
  curve.setAttribute("preserveAspectRatio", "none");
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points.join(" "));
  curve.append(line);
  return curve;
}

/** The candidate that was timed last, against the reference and the best. */
function lastTimed({ bars, bestGflops, referenceGflops }: WorkloadState): string {
  const last = bars.at(-1);
  if (last === undefined) return "Nothing timed yet.";
  const { candidate, outcome, gflops } = last;
  // All are against its best rate: a reference that was disturbed beside one candidate counts less.
  const times = (rate: number | null): string =>
    rate === null || referenceGflops === null ? "" : speedup(referenceGflops / rate);
  const best = bestGflops === null ? "" : `; best so far ${times(bestGflops)}`;
  const result = gflops === null ? `failed (${outcome})` : `${times(gflops)} the reference`;
  return `Last: ${short(candidate)} ${result}${best}.`;
}

function limitLine(share: number): HTMLElement {
  const line = element("b", "limit");
  line.style.bottom = `${(100 * share).toFixed(1)}%`;
  return line;
}

function progress({ bars, remaining }: WorkloadState): string {
  const measured = `${count(bars.length, "candidate")} measured`;
  return remaining === null || remaining === 0
    ? measured
    : `${measured}, at most ${remaining} to go`;
}

function ballotList({ ballot }: WorkloadState): Node {
  if (ballot === null) return element("p", "quiet", "No ballot yet.");
  const lines = ballot.lines.map((line) =>
    element("li", "", element("code", "", short(line.candidate)), ` ${speedup(line.relativeTime)}`),
  );
  const title = ballot.final ? "Ballot, final" : "Ballot so far";
  return element(
    "div",
    "ballot",
    element("h3", "", title),
    element("ol", "", ...lines),
    element("p", "quiet", "Speed against the reference kernel."),
  );
}

const LIMITS = {
  wasm: "the limit of one core",
  webgpu: "the limit of the GPU",
} as const satisfies Record<MeasuredTarget, string>;

function workloadCard(state: WorkloadState, peakGflops: number): HTMLElement {
  const full = Math.max(peakGflops, state.bestGflops ?? 0, 1e-9);
  const shown = state.bars.slice(-BARS_SHOWN);
  const bars = shown.map((candidate) => bar(candidate, full, state.bestGflops));
  while (bars.length < PLACES) bars.push(element("i", "free"));
  const chart = element("div", "bars", ...bars);
  chart.append(bestCurve(shown, full), limitLine(peakGflops / full));
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", `${progress(state)}; best ${rate(state.bestGflops)}`);
  return element(
    "section",
    "card",
    element("h2", "", element("code", "", state.workload), ` ${state.target}`),
    element("p", "figure", rate(state.bestGflops)),
    element("p", "quiet", `best; reference ${rate(state.referenceGflops)}. ${progress(state)}.`),
    element("p", "last", lastTimed(state)),
    chart,
    element(
      "p",
      "quiet axis",
      `Dashed: ${rate(peakGflops)}, ${LIMITS[state.target]}. Line: the best so far.`,
    ),
    ballotList(state),
  );
}

function errorText({ error }: AgentState): string {
  if (error === null) return "";
  const { message, retryInMs } = error;
  return retryInMs === null ? message : `${message} Next try in ${milliseconds(retryInMs)}.`;
}

const sessionOf = ({ sessions }: AgentState, target: MeasuredTarget): SessionEvent | undefined =>
  sessions.find((own) => own.target === target);

/** The limit of a target, or why there is none. */
function limitText(state: AgentState, target: MeasuredTarget): string {
  const missing = state.unavailable.find((own) => own.target === target);
  const session = sessionOf(state, target);
  return missing?.reason ?? (session === undefined ? "…" : rate(session.peakGflops));
}

function renderDevice(state: AgentState): void {
  const { session, sessions, firstTimedMs } = state;
  const classes = sessions.map(({ deviceClass }) => deviceClass).join("\n");
  setText("device", session?.deviceId ?? "…");
  setText("device-class", classes || "…");
  setText("peak", limitText(state, "wasm"));
  setText("gpu-peak", limitText(state, "webgpu"));
  setText("first", firstTimedMs === null ? "…" : milliseconds(firstTimedMs));
}

/** Parts of the page of which one is shown at a time. Each has a heading. */
const PARTS = ["consent", "asking", "live"];

/** Moves the focus from what was just hidden to the heading of the part that is shown. */
function keepFocus(): void {
  const { activeElement } = document;
  if (activeElement === null || activeElement.closest("[hidden]") === null) return;
  const shown = PARTS.map(byId).find(({ hidden }) => !hidden);
  shown?.querySelector("h1")?.focus();
}

/** Shows `state` in the agent page. */
export function render(state: AgentState): void {
  show("consent", state.phase === "consent");
  show("asking", state.phase === "asking");
  const begun = state.phase !== "consent" && state.phase !== "asking";
  for (const id of ["live", "ledger", "leave"]) show(id, begun);
  if (state.phase === "asking" && state.profile !== null) renderProfile(state.profile);
  setText("announce", announcement(state));
  setText("status", status(state));
  setText("pause", state.pausedBy === "hand" ? "Resume" : "Pause");
  show("pause", state.phase !== "refused");
  keepFocus();
  setText("error", errorText(state));
  show("error", state.error !== null);
  renderDevice(state);
  const cards = state.workloads.map((workload) =>
    workloadCard(workload, sessionOf(state, workload.target)?.peakGflops ?? 0),
  );
  byId("workloads").replaceChildren(...cards);
}

const chosen = (): Budget => ({
  minutes: Number((byId("minutes") as HTMLSelectElement).value),
  intensity: (byId("intensity") as HTMLSelectElement).value as Intensity,
});

/** Tells of each choice at once: there is nothing to save. */
export function watchBudgetForm(changed: (budget: Budget) => void): void {
  for (const id of ["minutes", "intensity"]) {
    byId(id).addEventListener("change", () => changed(chosen()));
  }
}

function select(id: string, value: string): void {
  const field = byId(id) as HTMLSelectElement;
  if (field.value !== value) field.value = value;
}

/** The bar, and the form as it was chosen in this browser. */
export function showBudget(lending: Lending): void {
  const { budget, spent } = lending;
  const bar = byId("spent") as HTMLProgressElement;
  const limited = isLimited(lending);
  byId("budget").hidden = !limited;
  if (!limited) return;
  select("minutes", String(budget.minutes));
  select("intensity", budget.intensity);
  bar.max = budgetMs(budget);
  bar.value = Math.min(spent.ms, bar.max);
  setText("spent-text", `${span(spent.ms)} of ${span(bar.max)}`);
}
