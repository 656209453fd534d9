/** Our kernels on WebGPU: tuned, checked and timed by the agent's own code. */

import {
  runInSlices,
  type Sliced,
  submitPass,
} from "../../../../client/src/backend/webgpu/binding.js";
import type { OpenDevice } from "../../../../client/src/backend/webgpu/device.js";
import { compileProgram, type Program } from "../../../../client/src/backend/webgpu/program.js";
import { fetchArtifact } from "../../../../client/src/engine/artifact.js";
import { maxDifference } from "../../../../client/src/engine/difference.js";
import { sentence } from "../../../../client/src/engine/error.js";
import { GpuBench } from "../../../../client/src/measurer/webgpu/bench.js";
import {
  type GpuReference,
  gpuReference,
  measureGpu,
} from "../../../../client/src/measurer/webgpu/instrument.js";
import { now } from "../../../../client/src/timing/clock.js";
import type { KernelWire, Lease } from "../../../../client/src/wire/types.js";
import type { Caller, GpuEntrant } from "./entrant.js";
import type { GpuCase, GpuScreened } from "./request.js";

const LIMIT_MS = 60_000;

/** The tensors of one lease on our device, and its reference kernel. Owned by the caller. */
export interface GpuStand {
  readonly open: OpenDevice;
  readonly lease: Lease;
  readonly bench: GpuBench;
  readonly reference: GpuReference;
}

async function loaded(open: OpenDevice, kernel: KernelWire): Promise<Program> {
  const bytes = await fetchArtifact(new URL(document.baseURI), kernel);
  return compileProgram(open, kernel, new TextDecoder().decode(bytes));
}

export async function setUp(open: OpenDevice, lease: Lease): Promise<GpuStand> {
  const bench = await GpuBench.make(open, lease, [lease.reference, ...lease.candidates]);
  const reference = await gpuReference(bench, await loaded(open, lease.reference));
  return { open, lease, bench, reference };
}

export function tearDown({ bench, reference }: GpuStand): void {
  reference.bound.dispose();
  reference.timer.dispose();
  bench.dispose();
}

type Timed = Omit<GpuScreened, "candidate" | "config">;

const UNTIMED = { relativeTime: null, calls: 0, samplesNs: [], referenceNs: [] };

async function timed(stand: GpuStand, program: Program): Promise<Timed> {
  const { bench, lease, reference } = stand;
  const measured = await measureGpu(bench, lease, reference, program);
  const { samples_ns: samplesNs, reference_ns: referenceNs, calls_per_sample: calls } = measured;
  const relativeTime = Math.min(...samplesNs) / Math.min(...referenceNs);
  return { relativeTime, failure: "", calls, samplesNs, referenceNs };
}

/** Drivers compile on threads of their own, while the candidates before are measured. */
function compiling(stand: GpuStand): ReadonlyMap<KernelWire, Promise<Program>> {
  const { open, lease } = stand;
  const offered = lease.candidates.filter(({ requires }) =>
    requires.every((feature) => open.features.includes(feature)),
  );
  const all = new Map(offered.map((kernel) => [kernel, loaded(open, kernel)]));
  for (const program of all.values()) program.catch(() => undefined);
  return all;
}

/** Every candidate that this device may run, in order, until `untilMs`. */
export async function tune(
  stand: GpuStand,
  configs: GpuCase["configs"],
  untilMs: number,
): Promise<readonly GpuScreened[]> {
  const all: GpuScreened[] = [];
  for (const [{ candidate }, program] of compiling(stand)) {
    if (now() > untilMs) break;
    const named = { candidate, config: configs[candidate] ?? "" };
    try {
      all.push({ ...named, ...(await timed(stand, await program)) });
    } catch (thrown) {
      all.push({ ...named, ...UNTIMED, failure: sentence(thrown) });
      await stand.open.idle(LIMIT_MS);
    }
  }
  return all;
}

/** The fastest of those that were tuned. */
export function fastest(screened: readonly GpuScreened[], count: number): readonly string[] {
  const timed = screened.filter(({ relativeTime }) => relativeTime !== null);
  timed.sort((a, b) => (a.relativeTime as number) - (b.relativeTime as number));
  return timed.slice(0, count).map(({ candidate }) => candidate);
}

/** Submits each call by itself, as `run` of a kernel on the GPU does. */
const submitting = (open: OpenDevice, { encode }: Sliced): Caller => ({
  call: () => submitPass(open.device, encode),
  settle: () => open.idle(LIMIT_MS),
});

/**
 * Calls that are encoded, then submitted at once, as by a page that runs several kernels.
 * TensorFlow.js does 15 at a time.
 */
const BATCH = 15;

function batching(open: OpenDevice, { encode }: Sliced): Caller {
  let waiting = 0;
  const submit = (): void => {
    const calls = waiting;
    waiting = 0;
    submitPass(open.device, (pass) => {
      for (let i = 0; i < calls; i++) encode(pass);
    });
  };
  return {
    call: () => {
      waiting += 1;
      if (waiting === BATCH) submit();
    },
    settle: () => {
      submit();
      return open.idle(LIMIT_MS);
    },
  };
}

/** `expected` is the right output. */
export async function kernelEntrant(
  stand: GpuStand,
  candidate: string,
  expected: Float32Array,
): Promise<GpuEntrant> {
  const { open, bench, lease, reference } = stand;
  const kernel = lease.candidates.find((each) => each.candidate === candidate) as KernelWire;
  const bound = await bench.bind(await loaded(open, kernel));
  bench.clearOutput();
  await runInSlices(open, bound, now() + LIMIT_MS);
  const output = await bench.output(LIMIT_MS);
  const work: Sliced = {
    slices: bound.slices,
    encode: (pass, lo, hi) => bound.encode(pass, lo, hi),
  };
  return {
    name: candidate,
    flops: lease.flops,
    bytes: 0,
    dispatches: kernel.dispatches.map(({ entry }) => entry),
    profiledNs: null,
    difference: maxDifference(output, expected),
    timer: reference.timer,
    kernel: async () => work,
    callers: { call: submitting(open, work), batched: batching(open, work) },
    dispose: () => bound.dispose(),
  };
}
