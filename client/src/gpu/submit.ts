import { type Clock, now } from "../timing/clock.js";
import type { OpenDevice } from "./device.js";

/** Submits one compute pass. */
export function submitPass(device: GPUDevice, encode: (pass: GPUComputePassEncoder) => void): void {
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  encode(pass);
  pass.end();
  device.queue.submit([encoder.finish()]);
}

/** Work that can be submitted in parts. */
export interface Sliced {
  readonly slices: number;
  encode(pass: GPUComputePassEncoder, lo?: number, hi?: number): void;
}

/** A submission that takes longer is followed by a shorter one: the page draws with this GPU. */
const LONGEST_MS = 32;
/** Shorter than this, the answer takes longer than the work. */
const SHORTEST_MS = 8;

/**
 * Runs all slices once, in submissions that stay short however slow the GPU is, and answers the
 * milliseconds that they took together: an upper bound of one call.
 * Throws KernelZooError: run, timeout at `deadlineMs` of the clock.
 */
export async function runInSlices(
  open: OpenDevice,
  work: Sliced,
  deadlineMs: number,
  clock: Clock = now,
): Promise<number> {
  const start = clock();
  let units = 1;
  for (let lo = 0; lo < work.slices; ) {
    const hi = Math.min(lo + units, work.slices);
    const before = clock();
    submitPass(open.device, (pass) => work.encode(pass, lo, hi));
    await open.idle(deadlineMs - before);
    const elapsed = clock() - before;
    if (elapsed < SHORTEST_MS) units *= 2;
    else if (elapsed > LONGEST_MS) units = Math.max(1, units >> 1);
    lo = hi;
  }
  return clock() - start;
}
