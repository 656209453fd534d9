import type { KernelWire } from "../wire/types.js";
import { KernelZooError, sentence } from "./error.js";
import type { MemoryPlan } from "./tensors.js";

/** A kernel bound to its tensors. A range is of the outermost loop, 0 ≤ lo ≤ hi ≤ extent. */
export interface KernelInstance {
  readonly extent: number;
  /** Throws KernelZooError (run) when the module traps. */
  run(lo: number, hi: number): void;
  runAll(): void;
}

type KernelMain = (...words: readonly number[]) => void;

function exportedMain(module: WebAssembly.Module, memory: WebAssembly.Memory): KernelMain {
  try {
    const instance = new WebAssembly.Instance(module, { env: { memory } });
    const main = instance.exports.main;
    if (typeof main !== "function") throw new TypeError("it exports no function main");
    return main as KernelMain;
  } catch (cause) {
    throw new KernelZooError(
      "compile",
      `The kernel cannot be instantiated: ${sentence(cause)}`,
      cause,
    );
  }
}

/** Addresses in the order of ABI 1: tensors from `base` on, then scratch where there is any. */
export function addresses(
  kernel: Pick<KernelWire, "scratch_bytes">,
  plan: MemoryPlan,
  base: number,
): readonly number[] {
  const tensors = plan.regions.map((region) => base + region.offset);
  return kernel.scratch_bytes > 0 ? [...tensors, base + plan.scratchOffset] : tensors;
}

/**
 * The first run of a kernel goes in this many slices, so that optimised code takes over within it.
 */
const FIRST_RUN_SLICES = 32;

/** The whole range, in slices. */
export function runInSlices({ extent, run }: KernelInstance): void {
  const units = Math.max(1, Math.ceil(extent / FIRST_RUN_SLICES));
  for (let lo = 0; lo < extent; lo += units) run(lo, Math.min(lo + units, extent));
}

/**
 * Binds `module` to `words`, the addresses of its tensors and scratch in `memory`. Runs take `turns`
 * one after the other, the addresses of copies of the same tensors; a run begins with its first slice.
 */
export function instantiate(
  module: WebAssembly.Module,
  memory: WebAssembly.Memory,
  words: readonly number[],
  extent: number,
  turns: readonly (readonly number[])[] = [words],
): KernelInstance {
  const main = exportedMain(module, memory);
  let turn = -1;
  const run = (lo: number, hi: number): void => {
    if (lo === 0) turn = (turn + 1) % turns.length;
    try {
      main(...(turns[turn] ?? words), lo, hi);
    } catch (cause) {
      throw new KernelZooError("run", `The kernel trapped: ${sentence(cause)}`, cause);
    }
  };
  return { extent, run, runAll: () => run(0, extent) };
}
