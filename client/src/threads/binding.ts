/** Kernels that are bound to the threads of an arena. */
import type { Arena, Block } from "../engine/arena.js";
import { addresses } from "../engine/instance.js";
import { align, type MemoryPlan } from "../engine/tensors.js";
import type { KernelWire } from "../wire/types.js";
import type { ThreadedKernel, ThreadPool } from "./pool.js";

/** A kernel and where its tensors lie: `plan`, from `base` on. */
export interface Placed {
  readonly arena: Arena;
  readonly kernel: Pick<KernelWire, "scratch_bytes" | "range_extent">;
  readonly module: WebAssembly.Module;
  readonly plan: MemoryPlan;
  readonly base: number;
}

export interface BoundToThreads {
  readonly kernel: ThreadedKernel;
  readonly scratch: Block;
}

/** Threads share the tensors; each has scratch of its own. Throws KernelZooError (memory). */
export function bindToThreads(
  { arena, kernel, module, plan, base }: Placed,
  pool: ThreadPool,
): BoundToThreads {
  const stride = align(kernel.scratch_bytes);
  const scratch = arena.allocate(stride * pool.size);
  const wordsOf = (thread: number): readonly number[] => {
    const own = { ...plan, scratchOffset: scratch.start + thread * stride - base };
    return addresses(kernel, own, base);
  };
  return { kernel: pool.bind({ module, extent: kernel.range_extent, wordsOf }), scratch };
}
