/**
 * Whole networks in one page: `kernelzooModels.contest` times engines in turns, and
 * `kernelzooModels.jit` one that is tuned between inferences. With `?cold=ENGINE`
 * the page loads one engine at once, and `kernelzooCold` is when its first output was there; with
 * `?jit=REQUEST` it tunes one. With `?tell` the page posts what came of it to its site, for a browser
 * that nobody drives.
 */
import { Arena } from "../../../../client/src/engine/arena.js";
import { clockStepMs, now } from "../../../../client/src/timing/clock.js";
import { sampleNs } from "../../../../client/src/timing/samples.js";
import { registerLimits } from "../limits.js";
import { openFloor } from "./floor.js";
import { openEmptyPage, openEmptyWorker } from "./idle.js";
import { jit } from "./jit.js";
import { type Engine, type Network, relativeDifference, valuesOf } from "./network.js";
import { openOurs, openRange } from "./ours.js";
import { openLiteRt, openOnnxRuntime, openOnnxRuntimeOnGpu, openTensorFlow } from "./peers.js";
import { mix, random, switches } from "./shapes.js";

/** A network that is yet to arrive lets an engine's own files come meanwhile, as in a page that names them. */
type Open = (
  network: Network | Promise<Network>,
  threads: number,
  asked?: URLSearchParams,
) => Promise<Engine>;

const ENGINES: Readonly<Record<string, Open>> = {
  ours: openOurs,
  "ours-range": openRange,
  peer: openOnnxRuntime,
  "peer-webgpu": openOnnxRuntimeOnGpu,
  litert: openLiteRt,
  tensorflow: openTensorFlow,
  "empty-page": openEmptyPage,
  "empty-worker": openEmptyWorker,
  floor: openFloor,
};

export interface Entry {
  readonly engine: string;
  readonly threads: number;
}

export interface ModelContest {
  readonly network: Network;
  readonly entries: readonly Entry[];
  readonly rounds: number;
}

export interface Timed {
  readonly name: string;
  readonly threads: number;
  /** Milliseconds from the page's call to the outputs in the page, of each round. */
  readonly samplesMs: readonly number[];
  /** To PyTorch's outputs, as a share of the largest magnitude. */
  readonly difference: number;
  /** From aborts to the rejection of the runs that they stopped; empty where an engine cannot stop. */
  readonly abortsMs: readonly number[];
}

export interface ContestAnswer {
  readonly timed: readonly Timed[];
  /** 10^9 operations a second of arithmetic in registers alone on one thread, of each round. */
  readonly limitGflops: readonly number[];
}

function opener(engine: string): Open {
  const open = ENGINES[engine];
  if (open === undefined) throw new Error(`there is no engine ${engine}`);
  return open;
}

async function runMs(engine: Engine): Promise<number> {
  const start = now();
  await engine.run();
  return now() - start;
}

/**
 * Engines are warm then: while a network of 10 ms runs for the first dozen times, the browser replaces
 * its baseline code, and ours learns which calls threads help with.
 */
const WARM_MS = 1000;

/**
 * Rounds go on for so long, and no more are made than `MOST_ROUNDS`: a few of a network that takes a
 * tenth of a millisecond say what else the machine did, as another process that has its turn between
 * two of them takes longer than all of them.
 */
const LEAST_MS = 500;
const MOST_ROUNDS = 500;

/** Times engines in turns, each first as often as the others, `count` times or more. */
async function rounds(engines: readonly Engine[], count: number): Promise<number[][]> {
  const warm = now() + WARM_MS;
  do for (const engine of engines) await engine.run();
  while (now() < warm);
  const samples = engines.map((): number[] => []);
  const enough = now() + LEAST_MS;
  for (let round = 0; round < count || (round < MOST_ROUNDS && now() < enough); round++) {
    for (let i = 0; i < engines.length; i++) {
      const at = (round + i) % engines.length;
      samples[at]?.push(await runMs(engines[at] as Engine));
    }
  }
  return samples;
}

/** Aborts at as many moments, spread over a run; none of a run that was over by then. */
async function abortsMs(engine: Engine, count: number, samplesMs: readonly number[]) {
  const runMs = Math.min(...samplesMs);
  const found: number[] = [];
  for (let i = 0; i < count && engine.abortMs !== undefined; i++) {
    const elapsedMs = await engine.abortMs((runMs * i) / count);
    if (elapsedMs !== null) found.push(elapsedMs);
  }
  return found;
}

/** The faster of the loops with and without fused products and sums. */
function limitGflops(): number {
  const limits = registerLimits(new Arena().memory, clockStepMs());
  return Math.max(
    ...limits.map(({ flops, timed }) => ("call" in timed ? flops / sampleNs(timed) : 0)),
  );
}

async function contest({ network, entries, rounds: count }: ModelContest): Promise<ContestAnswer> {
  const right = await valuesOf(network.outputs);
  const limits = [limitGflops()];
  const engines: Engine[] = [];
  for (const { engine, threads } of entries) engines.push(await opener(engine)(network, threads));
  const samples = await rounds(engines, count);
  limits.push(limitGflops());
  const timed: Timed[] = [];
  for (const [i, engine] of engines.entries()) {
    const difference = relativeDifference(await engine.run(), right);
    const { name, threads } = engine;
    const samplesMs = samples[i] ?? [];
    const aborts = await abortsMs(engine, count, samplesMs);
    timed.push({ name, threads, samplesMs, difference, abortsMs: aborts });
    await engine.dispose();
  }
  return { timed, limitGflops: limits };
}

/**
 * Milliseconds from the navigation to the first output, and of the best of `warm` runs after that. With
 * `watch` it also tells what is noticed while kernels are switched.
 */
async function cold(engine: string, asked: URLSearchParams) {
  const network = fetch(asked.get("network") ?? "").then(
    (response) => response.json() as Promise<Network>,
  );
  const opened = await opener(engine)(network, Number(asked.get("threads") ?? "1"), asked);
  const elapsedMs = performance.now();
  let warmMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < Number(asked.get("warm") ?? "0"); i++)
    warmMs = Math.min(warmMs, await runMs(opened));
  await opened.kept?.();
  const switched = asked.has("watch") ? await opened.switching?.() : undefined;
  return { elapsedMs, warmMs, switched: switched ?? null };
}

/** Does what an address asks of a page that nobody drives; null where that is nothing. */
function asksFor(asked: URLSearchParams): Promise<object> | null {
  const [engine, tuning] = [asked.get("cold"), asked.get("jit")];
  if (engine) return cold(engine, asked);
  if (!tuning) return null;
  const network = fetch(asked.get("network") ?? "").then((response) => response.json());
  return network.then((network) => jit({ ...JSON.parse(tuning), network }));
}

const asked = new URLSearchParams(location.search);
const started = asksFor(asked)?.catch((thrown: unknown) => ({ failure: String(thrown) }));
if (started) void started.then((kernelzooCold) => Object.assign(globalThis, { kernelzooCold }));
if (asked.has("tell")) {
  const told = Promise.resolve(started);
  void told.then((told) => fetch("/told", { method: "POST", body: JSON.stringify(told ?? {}) }));
}
const shapes = { mix, switches, random };
Object.assign(globalThis, {
  kernelzooModels: { isolated: crossOriginIsolated, contest, jit, ...shapes },
});
