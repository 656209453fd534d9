/** The browser's side of a benchmark: `kernelzooBench` is what Python calls. */

import { instantiate } from "../../../client/src/engine/instance.js";
import { plainTensors } from "../../../client/src/engine/packing.js";
import { fillSeeded } from "../../../client/src/engine/seeded.js";
import { elementsOf } from "../../../client/src/engine/tensors.js";
import { clockStepMs } from "../../../client/src/timing/clock.js";
import type { KernelWire, Lease } from "../../../client/src/wire/types.js";
import { compete, type Entrant } from "./contestant.js";
import { loopEntrant, registerLimits } from "./limits.js";
import {
  costsOfAll,
  kernelEntrant,
  type Stand,
  screenAll,
  setUp,
  startPool,
  threadedEntrant,
} from "./ours.js";
import { onnxRuntimeEntrants, setOnnxRuntime } from "./peers/onnxruntime.js";
import { type Problem, parsedKey } from "./peers/problem.js";
import { setTensorFlow, tensorFlowEntrant } from "./peers/tensorflow.js";
import type {
  ContestRequest,
  Costly,
  Reading,
  Result,
  Screened,
  ScreenRequest,
} from "./request.js";

/** Threads of every engine of the page. Where there are several, ours run on one, too. */
const threads = Number(new URLSearchParams(location.search).get("threads") ?? "1");

const stepMs = clockStepMs();

/** Resolves with the threads that TensorFlow.js has. */
const ready = (async (): Promise<number> => {
  setOnnxRuntime(threads);
  return setTensorFlow(threads);
})();

/** The lease's inputs and the reference's output, in memory of the peers' own. */
function problemOf({ lease, reference }: Stand): Problem {
  const tensors = plainTensors(lease.reference).map((tensor, i) => {
    const { name, shape, role } = tensor;
    // The workloads that peers have give reals; only programs give integers.
    const given = reference.output as Float32Array<ArrayBuffer>;
    const data = role === "input" ? new Float32Array(elementsOf(tensor)) : given;
    if (role === "input") fillSeeded(data, lease.seed, i);
    return { name, shape, data };
  });
  const output = tensors.at(-1) as Problem["output"];
  const inputs = tensors.slice(0, -1);
  return { ...parsedKey(lease.workload), flops: lease.flops, inputs, output };
}

async function peerEntrants(stand: Stand): Promise<readonly Entrant[]> {
  const tensorFlowThreads = await ready;
  const problem = problemOf(stand);
  const onnxRuntime = await onnxRuntimeEntrants(problem, threads, stepMs);
  return [...onnxRuntime, await tensorFlowEntrant(problem, tensorFlowThreads, stepMs)];
}

/** Reads a tensor of its own, as large as that of the lease. */
async function readingEntrant({ arena, lease }: Stand, reading: Reading): Promise<Entrant> {
  const module = await WebAssembly.compileStreaming(fetch(reading.url));
  const tensor = plainTensors(lease.reference)[reading.tensor];
  const elements = tensor === undefined ? 0 : elementsOf(tensor);
  const source = arena.allocate(4 * elements);
  const sink = arena.allocate(64);
  fillSeeded(
    new Float32Array(arena.memory.buffer, source.start, elements),
    lease.seed,
    reading.tensor,
  );
  const loop = instantiate(module, arena.memory, [source.start, sink.start], reading.extent);
  return loopEntrant("reading", loop, 0, stepMs);
}

async function threadedEntrants(
  stand: Stand,
  kernels: readonly KernelWire[],
): Promise<readonly Entrant[]> {
  if (threads === 1) return [];
  const pool = await startPool(stand, threads);
  const entrants: Entrant[] = [];
  for (const kernel of kernels) entrants.push(await threadedEntrant(stand, kernel, pool));
  return entrants;
}

async function entrantsOf(stand: Stand, request: ContestRequest): Promise<readonly Entrant[]> {
  const entrants = [...registerLimits(stand.arena.memory, stepMs)];
  for (const kernel of request.finalists) entrants.push(await kernelEntrant(stand, kernel));
  entrants.push(...(await threadedEntrants(stand, request.finalists)));
  if (request.reading !== null) entrants.push(await readingEntrant(stand, request.reading));
  if (request.peers) entrants.push(...(await peerEntrants(stand)));
  return entrants;
}

/**
 * Times candidates as an agent does; with `hot` as the contest does, whose peers have weights in
 * the caches.
 */
async function screen({ lease, hot }: ScreenRequest): Promise<readonly Screened[]> {
  return screenAll(await setUp(lease, stepMs, hot));
}

/** Weights are as cold as in a network. */
async function costs(lease: Lease): Promise<readonly Costly[]> {
  return costsOfAll(await setUp(lease, stepMs, false));
}

async function contest(request: ContestRequest): Promise<readonly Result[]> {
  const stand = await setUp(request.lease, stepMs, true);
  const entrants = await entrantsOf(stand, request);
  const samples = await compete(entrants, request.rounds);
  for (const entrant of entrants) entrant.dispose();
  return entrants.map(({ name, threads: own, flops, difference }, i) => {
    return { name, threads: own, flops, difference, samplesNs: samples[i] ?? [] };
  });
}

const api = { isolated: crossOriginIsolated, stepMs, screen, costs, contest };

Object.assign(globalThis, { kernelzooBench: api });
