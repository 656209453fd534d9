/**
 * Shows where the time of a model goes: as a table to read, and as a trace for chrome://tracing.
 * Loaded with the first profile.
 */
import type { CallTimes } from "../backend/wasm/dispatch.js";
import { KernelZooError } from "../engine/error.js";
import { unknownName } from "../engine/spelling.js";
import { productOf } from "../engine/tensors.js";
import type { Stored } from "../executor/golden-tensors.js";
import type { ModelTensor, PlannedCall } from "./planned-calls.js";

export interface ProfileOptions {
  /** The inputs of the last run, or zeros, are run so often; 5 times unless told. */
  readonly runs?: number;
  /** Stops the runs between two kernels; the profile rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** A model that is profiled. */
interface Profiled {
  readonly inputs: readonly ModelTensor[];
  readonly plan: { readonly calls: readonly PlannedCall[] };
}

export interface ProfiledCall extends PlannedCall {
  /** Median of the profile's runs. */
  readonly elapsedMs: number;
  /** The share of the time of all calls. */
  readonly share: number;
  readonly threads: number;
}

/** An event of the Trace Event Format, in microseconds. */
export interface TraceEvent {
  readonly name: string;
  readonly cat: string;
  readonly ph: "X";
  readonly ts: number;
  readonly dur: number;
  readonly pid: number;
  readonly tid: number;
  readonly args: Readonly<Record<string, string | number>>;
}

export interface Profile {
  readonly totalMs: number;
  /** The calls in the order in which they run. */
  readonly calls: readonly ProfiledCall[];
  /** Workloads by their time, the longest first. */
  table(): string;
  /** Write it to a file and open that in chrome://tracing or ui.perfetto.dev. */
  trace(): { readonly traceEvents: readonly TraceEvent[] };
}

/**
 * Returns the median: of an even number of values the upper one of the two in the middle; 0 of
 * none.
 */
export const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

/** 0 where no call took as long as the browser's clock can tell. */
const shareOf = (ms: number, totalMs: number): number => (totalMs > 0 ? ms / totalMs : 0);

function tableOf(calls: readonly ProfiledCall[], totalMs: number): string {
  const byWorkload = new Map<string, ProfiledCall[]>();
  for (const call of calls) {
    const own = byWorkload.get(call.workload) ?? [];
    byWorkload.set(call.workload, [...own, call]);
  }
  const rows = [...byWorkload].map(([workload, own]) => {
    const elapsed = own.reduce((sum, call) => sum + call.elapsedMs, 0);
    const { level, threads } = own[0] as ProfiledCall;
    return { workload, elapsed, count: own.length, level, threads };
  });
  rows.sort((a, b) => b.elapsed - a.elapsed);
  const lines = rows.map(({ workload, elapsed, count, level, threads }) => [
    elapsed.toFixed(2),
    `${(100 * shareOf(elapsed, totalMs)).toFixed(1)} %`,
    `${count}`,
    `${threads}`,
    level,
    workload,
  ]);
  const all = [["ms", "share", "calls", "threads", "kernel of", "workload"], ...lines];
  const widths = all[0]?.map((_, i) => Math.max(...all.map((row) => row[i]?.length ?? 0))) ?? [];
  const aligned = all.map((row) =>
    row.map((cell, i) => (i < 4 ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))),
  );
  return aligned.map((row) => row.join("  ").trimEnd()).join("\n");
}

function traceOf(calls: readonly ProfiledCall[], times: CallTimes): readonly TraceEvent[] {
  return calls.map(({ label, workload, level, threads }, i) => ({
    name: label || workload,
    cat: workload.split(":")[0] ?? "",
    ph: "X",
    ts: 1000 * (times[3 * i] ?? 0),
    dur: 1000 * (times[3 * i + 1] ?? 0),
    pid: 1,
    tid: 1,
    args: { workload, level, threads },
  }));
}

const zeros = (inputs: readonly ModelTensor[]): readonly Stored[] =>
  inputs.map(({ dtype, shape }) => {
    const Entries = dtype === "float32" ? Float32Array : Int32Array;
    return new Entries(productOf(shape));
  });

const RUNS = 5;
const OPTIONS = ["runs", "signal"];

/**
 * Runs the model several times on the inputs of its last run; the times of the last one are those of
 * the trace. `run` answers the times of its calls. Rejects with KernelZooError (run) for a misspelt
 * option, and for a number of runs that is none.
 */
export async function profileOf(
  model: Profiled,
  last: readonly Stored[] | null,
  run: (feeds: readonly Stored[], signal?: AbortSignal) => Promise<{ readonly times: CallTimes }>,
  options: ProfileOptions,
): Promise<Profile> {
  const wrong = unknownName("model.profile", options, OPTIONS);
  if (wrong !== null) throw new KernelZooError("run", wrong);
  const { runs: count = RUNS, signal } = options;
  if (!(Number.isInteger(count) && count >= 1)) {
    throw new KernelZooError("run", `runs is to be a whole number from 1; ${count} was given.`);
  }
  const feeds = last ?? zeros(model.inputs);
  const runs: CallTimes[] = [];
  for (let i = 0; i < count; i++) runs.push((await run(feeds, signal)).times);
  const traced = runs.at(-1) as CallTimes;
  const planned = model.plan.calls;
  const elapsed = planned.map((_, i) => median(runs.map((times) => times[3 * i + 1] ?? 0)));
  const totalMs = elapsed.reduce((sum, ms) => sum + ms, 0);
  const calls = planned.map((call, i) => ({
    ...call,
    elapsedMs: elapsed[i] as number,
    share: shareOf(elapsed[i] as number, totalMs),
    threads: traced[3 * i + 2] ?? 1,
  }));
  return {
    totalMs,
    calls,
    table: () => tableOf(calls, totalMs),
    trace: () => ({ traceEvents: traceOf(calls, traced) }),
  };
}
