/** A kernel's tensors in the memory of its zoo, and the module that runs on them. */
import type { Arena, Block } from "../engine/arena.js";
import { addresses, instantiate, type KernelInstance, runInSlices } from "../engine/instance.js";
import type { LoadedKernel } from "../engine/modules.js";
import { type Packable, writeInput } from "../engine/packing.js";
import {
  align,
  type MemoryPlan,
  planMemory,
  type Region,
  type TensorView,
} from "../engine/tensors.js";
import type { ThreadedKernel, ThreadPool } from "../threads/pool.js";
import type { KernelWire } from "../wire/types.js";
import type { InputViews } from "./names.js";

/** A kernel wants this of memory. */
export interface Placeable extends Packable {
  readonly kernel: Pick<KernelWire, "tensors" | "layouts" | "scratch_bytes">;
}

/** A kernel's tensors and scratch in the memory of its zoo, as views by name. */
export class Tensors {
  readonly plan: MemoryPlan;
  readonly block: Block;
  /** All inputs that are not constant. */
  readonly inputs: InputViews;
  readonly output: Float32Array;
  readonly #arena: Arena;
  readonly #loaded: Placeable;

  /** Throws KernelZooError (memory). */
  constructor(arena: Arena, loaded: Placeable, constants: readonly string[] = []) {
    this.#arena = arena;
    this.#loaded = loaded;
    this.plan = planMemory(loaded.kernel);
    this.block = arena.allocate(this.plan.totalBytes);
    const named = this.plan.regions.map((region) => [region.tensor, this.#view(region)] as const);
    const inputs = named.slice(0, -1).filter(([{ name }]) => !constants.includes(name));
    this.inputs = Object.fromEntries(inputs.map(([{ name }, view]) => [name, view]));
    // Of float32, but for a program that computes integers: then it is an Int32Array.
    this.output = named.at(-1)?.[1] as Float32Array;
  }

  /**
   * Has `fill` write an input row-major, then packs it where the kernel wants that.
   * Throws KernelZooError: memory, compile, run.
   */
  write(region: Region, fill: (view: TensorView) => void): void {
    writeInput(this.#arena, this.#loaded, region, this.block.start, fill);
  }

  free(): void {
    this.#arena.free(this.block);
  }

  #view({ tensor, offset, elements }: Region): TensorView {
    return this.#arena.view(this.block.start + offset, tensor, elements);
  }
}

/** A kernel and where its tensors lie: `plan`, from `base` on. */
interface Placed {
  readonly arena: Arena;
  readonly kernel: Pick<KernelWire, "scratch_bytes" | "range_extent">;
  readonly module: WebAssembly.Module;
  readonly plan: MemoryPlan;
  readonly base: number;
}

interface BoundToThreads {
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

/** A module on its tensors. */
export class WasmKernel {
  readonly #loaded: LoadedKernel;
  readonly #arena: Arena;
  readonly #tensors: Tensors;
  readonly #instance: KernelInstance;
  #threaded: BoundToThreads | null = null;
  #warm = false;

  /** Throws KernelZooError (compile). */
  constructor(loaded: LoadedKernel, arena: Arena, tensors: Tensors) {
    const { kernel, module } = loaded;
    this.#loaded = loaded;
    this.#arena = arena;
    this.#tensors = tensors;
    const words = addresses(kernel, tensors.plan, tensors.block.start);
    this.#instance = instantiate(module, arena.memory, words, kernel.range_extent);
  }

  /** Throws KernelZooError (run). */
  run(): void {
    if (this.#warm) this.#instance.runAll();
    else runInSlices(this.#instance);
    this.#warm = true;
  }

  /** Rejects with KernelZooError: run, memory. */
  runOn(pool: ThreadPool): Promise<void> {
    const { kernel, module } = this.#loaded;
    const { plan, block } = this.#tensors;
    const placed = { arena: this.#arena, kernel, module, plan, base: block.start };
    this.#threaded ??= bindToThreads(placed, pool);
    return this.#threaded.kernel.run();
  }

  dispose(): void {
    this.#threaded?.kernel.forget();
    if (this.#threaded !== null) this.#arena.free(this.#threaded.scratch);
  }
}
