/**
 * The fastest kernel of each workload on this GPU. All pipelines of a workload are made before the first
 * is timed, and they take turns, so that the GPU's clock is as high for each. Outputs are compared
 * later, those of the whole network.
 */

import { BoundProgram } from "../../../../client/src/backend/webgpu/binding.js";
import {
  storageBuffer,
  stored,
  storedBytes,
  writeEntries,
} from "../../../../client/src/backend/webgpu/buffers.js";
import { noActivity, raiseClock } from "../../../../client/src/backend/webgpu/clock.js";
import type { OpenDevice } from "../../../../client/src/backend/webgpu/device.js";
import { compileProgram } from "../../../../client/src/backend/webgpu/program.js";
import { gpuSampleNs, shapeOf } from "../../../../client/src/backend/webgpu/sample.js";
import { gpuTimer } from "../../../../client/src/backend/webgpu/timer.js";
import { elementsOf } from "../../../../client/src/engine/tensors.js";
import { now } from "../../../../client/src/timing/clock.js";
import type { KernelWire, TensorWire } from "../../../../client/src/wire/types.js";

/**
 * Kernels that took more than so many times the best before a round are left out of it. The second
 * one is in the reverse order and lets more in: the first kernels are timed while the clock may
 * still rise.
 */
const HOPELESS = [Number.POSITIVE_INFINITY, 1.5, 1.2];
const LIMIT_MS = 20_000;

const activity = noActivity();

interface Entrant {
  readonly kernel: KernelWire;
  readonly bound: BoundProgram;
}

/** Entries of inputs of i32, by their places; those that are not told are zeros. */
export type Words = Readonly<Record<number, readonly number[]>>;

function filled(open: OpenDevice, tensor: TensorWire, words?: readonly number[]): GPUBuffer {
  const buffer = storageBuffer(open.device, storedBytes(tensor));
  if (words !== undefined) open.device.queue.writeBuffer(buffer, 0, Int32Array.from(words));
  if (tensor.dtype.startsWith("f") && tensor.role === "input") {
    const entries = new Float32Array(elementsOf(tensor));
    for (let i = 0; i < entries.length; i++) entries[i] = ((i * 7919) % 1024) / 512 - 1;
    writeEntries(open.device, buffer, stored(tensor, entries));
  }
  return buffer;
}

async function entrants(
  open: OpenDevice,
  kernels: readonly KernelWire[],
  site: string,
  words: Words,
) {
  const [first] = kernels;
  const tensors = first?.tensors.map((tensor, place) => filled(open, tensor, words[place])) ?? [];
  const scratch = Math.max(16, ...kernels.map(({ scratch_bytes }) => scratch_bytes));
  const shared = [...tensors, storageBuffer(open.device, scratch)];
  const made = kernels.map(async (kernel): Promise<Entrant | null> => {
    try {
      const code = await (await fetch(new URL(`.${kernel.url}`, site))).text();
      const program = await compileProgram(open, kernel, code, LIMIT_MS);
      const used = kernel.scratch_bytes > 0 ? shared : tensors;
      return { kernel, bound: new BoundProgram(program, used) };
    } catch (thrown) {
      console.log(`${kernel.candidate} is left out: ${thrown}`);
      return null;
    }
  });
  const all = await Promise.all(made);
  return { entrants: all.filter((each) => each !== null), buffers: shared };
}

/** The fastest of `kernels`, which are of one workload, and nanoseconds of each that works. */
export async function fastest(
  open: OpenDevice,
  kernels: readonly KernelWire[],
  site: string,
  words: Words = {},
) {
  const { entrants: all, buffers } = await entrants(open, kernels, site, words);
  const timer = await gpuTimer(open, (pass) => all[0]?.bound.encode(pass), LIMIT_MS);
  const best = all.map(() => Number.POSITIVE_INFINITY);
  const [first] = all;
  if (first !== undefined) {
    await raiseClock(timer, first.bound, activity, now() + LIMIT_MS);
    const shape = await shapeOf(timer, first.bound, 0, now() + LIMIT_MS);
    for (const [round, hopeless] of HOPELESS.entries()) {
      const least = Math.min(...best);
      const order = [...all.entries()];
      for (const [i, { bound }] of round % 2 === 0 ? order : order.reverse()) {
        if ((best[i] as number) > hopeless * least) continue;
        const ns = await gpuSampleNs(timer, bound, shape, now() + LIMIT_MS);
        best[i] = Math.min(best[i] as number, ns);
      }
    }
    activity.lastMs = now();
  }
  timer.dispose();
  for (const { bound } of all) bound.dispose();
  for (const buffer of buffers) buffer.destroy();
  const least = Math.min(...best);
  const chosen = all[best.indexOf(least)]?.kernel ?? null;
  return {
    chosen,
    times: all.map(({ kernel }, i) => [kernel.candidate, best[i] as number] as const),
  };
}
