/** Our kernels, loaded, checked, warmed up and screened by the agent's own code. */

import { Arena } from "../../../client/src/engine/arena.js";
import { maxDifference } from "../../../client/src/engine/difference.js";
import { sentence } from "../../../client/src/engine/error.js";
import { loadModule, loadWhole } from "../../../client/src/engine/modules.js";
import { loadPacks, writeInput } from "../../../client/src/engine/packing.js";
import { fillSeeded } from "../../../client/src/engine/seeded.js";
import { planMemory, type Region } from "../../../client/src/engine/tensors.js";
import { UNDISTURBED } from "../../../client/src/measurer/measurement.js";
import { Bench } from "../../../client/src/measurer/wasm/bench.js";
import {
  measure,
  type Reference,
  setReference,
} from "../../../client/src/measurer/wasm/instrument.js";
import { bindToThreads } from "../../../client/src/sdk/wasm-kernel.js";
import type { ThreadPool } from "../../../client/src/threads/pool.js";
import { Threads } from "../../../client/src/threads/threads.js";
import { callsPerSample } from "../../../client/src/timing/samples.js";
import type { KernelWire, Lease } from "../../../client/src/wire/types.js";
import { type Entrant, warmAsync } from "./contestant.js";
import type { Costly, Screened } from "./request.js";

/** Kernels that LLVM makes keep their stack below this address, where nothing else is then. */
const RESERVED_BYTES = 1 << 21;

/** The tensors of one lease, and its reference kernel warm. Owned by the caller. */
export interface Stand {
  readonly arena: Arena;
  readonly bench: Bench;
  readonly lease: Lease;
  readonly reference: Reference;
  readonly stepMs: number;
}

const origin = (): URL => new URL(location.origin);

/** `hot` leaves weights in the caches from one run to the next, as peers' runs do. */
export async function setUp(lease: Lease, stepMs: number, hot: boolean): Promise<Stand> {
  const arena = new Arena();
  arena.allocate(RESERVED_BYTES);
  const kernels = [lease.reference, ...lease.candidates];
  const packs = await loadPacks(kernels, (pack) => loadModule(origin(), pack));
  const bench = new Bench(arena, lease, kernels, packs, hot);
  bench.reset();
  const module = await loadModule(origin(), lease.reference);
  const reference = await setReference(bench, lease.reference, module, stepMs);
  return { arena, bench, lease, reference, stepMs };
}

/** The best samples of a candidate and of the reference beside it; a text says what failed. */
type Sampled = { readonly ownNs: number; readonly referenceNs: number } | string;

async function sampled(stand: Stand, kernel: KernelWire): Promise<Sampled> {
  const { bench, lease, reference, stepMs } = stand;
  try {
    const module = await loadModule(origin(), kernel);
    const found = await measure(bench, lease, reference, kernel, module, stepMs);
    const ownNs = Math.min(...found.samples_ns);
    return { ownNs, referenceNs: Math.min(...found.reference_ns) };
  } catch (thrown) {
    bench.reset();
    return sentence(thrown);
  }
}

/**
 * Every candidate of the lease, one after the other. All times are over the best of the reference:
 * where the machine is busy, one that was timed beside a disturbed reference would look fast.
 */
export async function screenAll(stand: Stand): Promise<readonly Screened[]> {
  const { candidates } = stand.lease;
  const all: Sampled[] = [];
  for (const kernel of candidates) all.push(await sampled(stand, kernel));
  const references = all.map((each) => (typeof each === "string" ? Infinity : each.referenceNs));
  const best = Math.min(...references);
  return candidates.map(({ candidate }, i) => {
    const each = all[i] as Sampled;
    if (typeof each === "string") return { candidate, relativeTime: null, failure: each };
    return { candidate, relativeTime: each.ownNs / best, failure: "" };
  });
}

/**
 * Measures what each candidate of the lease costs a page before it is warm, as an agent measures
 * it.
 */
export async function costsOfAll({ bench, lease, ...stand }: Stand): Promise<readonly Costly[]> {
  const all: Costly[] = [];
  for (const kernel of lease.candidates) {
    const { candidate } = kernel;
    try {
      const answer = await fetch(new URL(`.${kernel.url}`, origin()));
      const bytes = new Uint8Array(await answer.arrayBuffer());
      const module = await WebAssembly.compile(bytes);
      const { reference, stepMs } = stand;
      const asked = [bench, lease, reference, kernel, module, stepMs] as const;
      const { preparation, samples_ns } = await measure(...asked, UNDISTURBED, bytes);
      const costs = preparation && { ...preparation, run_ns: Math.min(...samples_ns) };
      all.push({ candidate, costs: costs ?? null });
    } catch {
      bench.reset();
      all.push({ candidate, costs: null });
    }
  }
  return all;
}

/** A kernel in its optimised tier, its output compared. */
export async function kernelEntrant(stand: Stand, kernel: KernelWire): Promise<Entrant> {
  const { bench, lease, reference, stepMs } = stand;
  bench.clearOutput();
  const module = await loadModule(origin(), kernel);
  const { instance, callMs, output } = await setReference(bench, kernel, module, stepMs);
  return {
    name: kernel.candidate,
    threads: 1,
    flops: lease.flops,
    difference: maxDifference(output, reference.output),
    timed: { calls: callsPerSample(callMs, stepMs), call: instance.runAll },
    dispose: () => undefined,
  };
}

/** Throws where the page has no threads. */
export async function startPool({ arena }: Stand, threads: number): Promise<ThreadPool> {
  const started = new Threads(arena, threads);
  const pool = await started.pool();
  if (pool === null) throw new Error(started.reason ?? "one thread was asked for");
  return pool;
}

/** A kernel on every thread of the pool, on tensors of its own. */
export async function threadedEntrant(
  { arena, lease, reference, stepMs }: Stand,
  kernel: KernelWire,
  pool: ThreadPool,
): Promise<Entrant> {
  const loaded = await loadWhole(origin(), kernel);
  const plan = planMemory(kernel);
  const { start: base } = arena.allocate(plan.totalBytes);
  const inputs = plan.regions.slice(0, -1);
  for (const [i, region] of inputs.entries()) {
    writeInput(arena, loaded, region, base, (view) =>
      fillSeeded(view, lease.seed, i, region.tensor),
    );
  }
  const { offset, elements } = plan.regions[inputs.length] as Region;
  const output = new Float32Array(arena.memory.buffer, base + offset, elements);
  const bound = bindToThreads({ arena, ...loaded, plan, base }, pool);
  const timed = await warmAsync(() => bound.kernel.run(), stepMs);
  return {
    name: threadedName(kernel.candidate, pool.size),
    threads: pool.size,
    flops: lease.flops,
    difference: maxDifference(output, reference.output),
    timed,
    dispose: () => bound.kernel.forget(),
  };
}

/** Python knows it by this name. */
const threadedName = (candidate: string, threads: number): string => `${candidate}@${threads}`;
