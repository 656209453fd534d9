/**
 * Shows how an inference of a model became faster on a device class, with a mark for every kernel.
 */
import { element, svg } from "../page/elements.js";
import { count, duration } from "../page/text.js";
import type { ModelTimeline, PlanCoverage } from "../wire/types.js";
import { CIRCLE, DIAMOND, frame, legend, mark } from "./chart.js";
import { followed } from "./followed.js";
import { type Column, card, code, empty, facts, link, table } from "./pieces.js";
import { address, type Route } from "./route.js";

const MODEL = "model";

/** The timeline of a plan, as an address of the tuning view. */
export const timelineAddress = (
  model: string,
  plan: Pick<PlanCoverage, "device_class" | "dimensions" | "precision">,
): string => {
  const { device_class, dimensions, precision } = plan;
  const extents = Object.entries(dimensions).map(([name, extent]) => [name, String(extent)]);
  const query = Object.fromEntries([...extents, ["precision", precision]]);
  return address("tuning", [MODEL, model, device_class], query);
};

/** Returns what is shown at such an address; null at any other. */
export function timelineView(
  { path, query }: Route,
  signal: AbortSignal,
): readonly HTMLElement[] | null {
  const [what, model, deviceClass] = path;
  if (what !== MODEL || model === undefined || deviceClass === undefined) return null;
  const place = `/v1/models/${encodeURIComponent(model)}/${encodeURIComponent(deviceClass)}`;
  const asked = { path: `${place}/timeline?${new URLSearchParams(query)}`, everyMs: 5_000, draw };
  return [
    element("p", "", link(address("coverage"), "All models")),
    followed<ModelTimeline>(asked, signal),
  ];
}

function draw(history: ModelTimeline): Node {
  const plan = Object.entries(history.dimensions).map(([name, extent]) => `${name}=${extent}`);
  return element(
    "div",
    "",
    card(`${history.model} ${plan.join(", ")}`, code(history.device_class), ...summary(history)),
    card("Time of an inference", ...timeline(history)),
  );
}

const nanoseconds = (ms: number | null): string => duration(ms === null ? null : ms * 1e6);

function summary({ first_ms, measured, swaps }: ModelTimeline): readonly HTMLElement[] {
  const now = swaps.at(-1)?.expected_ms ?? first_ms;
  const faster = first_ms === null || !now ? "–" : `${(first_ms / now).toFixed(2)}×`;
  return [
    facts([
      ["Now", nanoseconds(now)],
      ["With default kernels", nanoseconds(first_ms)],
      ["Faster", faster],
      ["Operations measured", `${Math.round(100 * measured)} %`],
    ]),
  ];
}

type TimelineSwap = ModelTimeline["swaps"][number];

function timeline({ first_ms, swaps }: ModelTimeline): readonly HTMLElement[] {
  const [first] = swaps;
  if (first_ms === null || first === undefined) {
    return [empty("No kernel has won anything on this class yet.")];
  }
  const seconds = secondsOf(swaps, first);
  return [chart(first_ms, swaps, seconds), kernels(swaps, seconds)];
}

/** Since a twentieth of all of it before the first, so that what was before is seen, too. */
function secondsOf(swaps: readonly TimelineSwap[], first: TimelineSwap): readonly number[] {
  const at = swaps.map((swap) => (Date.parse(swap.at) - Date.parse(first.at)) / 1000);
  const before = (at.at(-1) ?? 0) / 20 || 1;
  return at.map((seconds) => seconds + before);
}

const MEANINGS = [
  [DIAMOND, "served-mark", "served to pages from then on"],
  [CIRCLE, "plain-mark", "leads, too few have voted"],
] as const;

function chart(
  firstMs: number,
  swaps: readonly TimelineSwap[],
  seconds: readonly number[],
): HTMLElement {
  const end = seconds.at(-1) ?? 1;
  const most = Math.max(firstMs, ...swaps.map(({ expected_ms }) => expected_ms));
  const { picture, x, y } = frame(
    `Time of an inference, changed by ${count(swaps.length, "kernel")} in ${end.toFixed(0)} s: ` +
      `at first ${nanoseconds(firstMs)}, at the end ${nanoseconds(swaps.at(-1)?.expected_ms ?? firstMs)}.`,
    { title: "Seconds", most: end, text: String },
    { title: "An inference", most: most * 1e6, text: (ns) => (ns === 0 ? "0" : duration(ns)) },
  );
  const steps = swaps.map((swap, index) => {
    return { swap, x: x.at(seconds[index] ?? 0), y: y.at(swap.expected_ms * 1e6) };
  });
  const line = steps.map((step) => `H${step.x}V${step.y}`).join("");
  picture.append(
    svg("path", { class: "step line-0", d: `M${x.at(0)} ${y.at(firstMs * 1e6)}${line}` }),
  );
  for (const { swap, x: atX, y: atY } of steps) {
    const [shape, look] = swap.served ? MEANINGS[0] : MEANINGS[1];
    const title = `${swap.workload}: ${nanoseconds(swap.before_ms)} → ${nanoseconds(swap.after_ms)}`;
    picture.append(mark(shape, atX, atY, look, title));
  }
  return element("div", "", picture, legend(MEANINGS));
}

function kernels(swaps: readonly TimelineSwap[], seconds: readonly number[]): HTMLElement {
  const rows = swaps.map((swap, index) => ({ ...swap, seconds: seconds[index] ?? 0 }));
  const columns: readonly Column<(typeof rows)[number]>[] = [
    { title: "After", numeric: true, cell: (row) => `${row.seconds.toFixed(1)} s` },
    { title: "Workload", cell: ({ workload }) => code(workload) },
    { title: "Kernel", cell: ({ candidate }) => code(candidate.slice(0, 8)) },
    { title: "Its calls, before", numeric: true, cell: (row) => nanoseconds(row.before_ms) },
    { title: "Since then", numeric: true, cell: (row) => nanoseconds(row.after_ms) },
    { title: "An inference", numeric: true, cell: (row) => nanoseconds(row.expected_ms) },
    { title: "Served", cell: ({ served }) => (served ? "yes" : "not yet") },
  ];
  return table("Every kernel that changed it", columns, rows);
}
