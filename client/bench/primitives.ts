/** Times both settings of each primitive against each other, in one page. */

import { Arena } from "../src/engine/arena.js";
import { fromBase64 } from "../src/engine/bytes.js";
import { maxDifference } from "../src/engine/difference.js";
import { addresses, instantiate } from "../src/engine/instance.js";
import { fillSeeded } from "../src/engine/seeded.js";
import { align, planMemory } from "../src/engine/tensors.js";
import type { ThreadPool } from "../src/threads/pool.js";
import { Threads } from "../src/threads/threads.js";
import { clockStepMs, now } from "../src/timing/clock.js";
import { warmUp } from "../src/timing/warmup.js";
import type { KernelWire, TensorWire } from "../src/wire/types.js";

interface PointRequest extends Pick<KernelWire, "scratch_bytes" | "range_extent"> {
  /** Base64. */
  readonly body: string;
  readonly slices: number;
  readonly threads: number;
}

interface TrialRequest {
  readonly primitive: string;
  readonly tensors: TensorWire[];
  /** Right outputs differ by no more. */
  readonly tolerance: number;
  readonly base: PointRequest;
  readonly advanced: PointRequest;
}

export interface TrialsRequest {
  readonly rounds: number;
  readonly trials: readonly TrialRequest[];
}

/** Best milliseconds of one run. */
export interface TrialResult {
  readonly primitive: string;
  readonly baseMs: number;
  readonly advancedMs: number;
  /** Between the outputs, in units of what right sums may differ by; at most 1 is right. */
  readonly difference: number;
}

type Call = () => void | Promise<void>;

/** The tensors of a trial, and room for the scratch of both kernels on every thread. */
function place(arena: Arena, { tensors, base, advanced }: TrialRequest) {
  const points = [base, advanced];
  const each = Math.max(...points.map((point) => align(point.scratch_bytes)));
  const threads = Math.max(...points.map((point) => point.threads));
  const plan = planMemory({ tensors, scratch_bytes: each * threads });
  const block = arena.allocate(plan.totalBytes);
  const { start } = block;
  const views = plan.regions.map(
    ({ offset, elements }) => new Float32Array(arena.memory.buffer, start + offset, elements),
  );
  for (const [i, view] of views.slice(0, -1).entries()) fillSeeded(view, 1, i);
  const words = (point: PointRequest, thread: number): readonly number[] =>
    addresses(point, { ...plan, scratchOffset: plan.scratchOffset + thread * each }, start);
  return { block, output: views[views.length - 1] as Float32Array, words };
}

async function timeOf(call: Call): Promise<number> {
  const start = now();
  await call();
  return now() - start;
}

function sliced(run: (lo: number, hi: number) => void, extent: number, slices: number): Call {
  const units = Math.ceil(extent / slices);
  return () => {
    for (let lo = 0; lo < extent; lo += units) run(lo, Math.min(lo + units, extent));
  };
}

type Words = (point: PointRequest, thread: number) => readonly number[];

/** A warm kernel of `point` as one call. */
function callOf(point: PointRequest, words: Words, arena: Arena, pool: ThreadPool | null): Call {
  const limits = { stepMs: clockStepMs(), patienceMs: 60, limitMs: 400, deadlineMs: now() + 6e5 };
  const module = new WebAssembly.Module(fromBase64(point.body));
  const extent = point.range_extent;
  const instance = instantiate(module, arena.memory, words(point, 0), extent);
  warmUp(instance, limits);
  if (point.threads === 1) return sliced(instance.run, extent, point.slices);
  if (pool === null) throw new Error("This page has one thread.");
  const wordsOf = (thread: number): readonly number[] => words(point, thread);
  return pool.bind({ module, extent, wordsOf }).run;
}

async function measureTrial(
  trial: TrialRequest,
  rounds: number,
  arena: Arena,
  pool: ThreadPool | null,
): Promise<TrialResult> {
  const { block, output, words } = place(arena, trial);
  const calls = [trial.base, trial.advanced].map((each) => callOf(each, words, arena, pool));
  const outputs: Float32Array[] = [];
  const best = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < rounds; round++) {
    for (const [i, call] of calls.entries()) {
      output.fill(Number.NaN);
      best[i] = Math.min(best[i] as number, await timeOf(call));
      outputs[i] = output.slice();
    }
  }
  arena.free(block);
  const [baseMs = 0, advancedMs = 0] = best;
  const [a, b] = outputs as [Float32Array, Float32Array];
  const difference = maxDifference(a, b) / trial.tolerance;
  return { primitive: trial.primitive, baseMs, advancedMs, difference };
}

/** Measures one trial after the other; settings of one trial take turns. */
export async function measureTrials(request: TrialsRequest): Promise<readonly TrialResult[]> {
  const arena = new Arena();
  const threads = new Threads(arena, 2);
  const pool = await threads.pool();
  const results: TrialResult[] = [];
  for (const trial of request.trials) {
    results.push(await measureTrial(trial, request.rounds, arena, pool));
  }
  threads.dispose();
  return results;
}
