import type { Arena } from "../engine/arena.js";
import { addresses, instantiate, type KernelInstance, runInSlices } from "../engine/instance.js";
import type { LoadedKernel } from "../engine/loaded.js";
import { type BoundToThreads, bindToThreads } from "../threads/bind.js";
import type { ThreadPool } from "../threads/pool.js";
import type { Tensors } from "./tensors.js";

/** A module on its tensors. */
export class WasmKernel {
  readonly #made: LoadedKernel;
  readonly #arena: Arena;
  readonly #tensors: Tensors;
  readonly #instance: KernelInstance;
  #threaded: BoundToThreads | null = null;
  #warm = false;

  /** Throws KernelZooError (compile). */
  constructor(made: LoadedKernel, arena: Arena, tensors: Tensors) {
    const { kernel, module } = made;
    this.#made = made;
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
    const { kernel, module } = this.#made;
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
