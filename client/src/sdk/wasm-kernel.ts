import type { Arena } from "../engine/arena.js";
import { addresses, instantiate, type KernelInstance } from "../engine/instance.js";
import { type BoundToThreads, bindToThreads } from "../threads/bind.js";
import type { ThreadPool } from "../threads/pool.js";
import type { KernelWire } from "../wire/types.js";
import type { Tensors } from "./tensors.js";

/** A kernel of WebAssembly, fetched and compiled. */
export interface WasmModule {
  readonly used: KernelWire;
  readonly module: WebAssembly.Module;
}

/** The first run goes in this many slices, so that optimised code takes over within it. */
const FIRST_RUN_SLICES = 32;

function runInSlices({ extent, run }: KernelInstance): void {
  const units = Math.max(1, Math.ceil(extent / FIRST_RUN_SLICES));
  for (let lo = 0; lo < extent; lo += units) run(lo, Math.min(lo + units, extent));
}

/** A module on its tensors. */
export class WasmKernel {
  readonly #made: WasmModule;
  readonly #arena: Arena;
  readonly #tensors: Tensors;
  readonly #instance: KernelInstance;
  #threaded: BoundToThreads | null = null;
  #warm = false;

  /** Throws KernelZooError (compile). */
  constructor(made: WasmModule, arena: Arena, tensors: Tensors) {
    const { used, module } = made;
    this.#made = made;
    this.#arena = arena;
    this.#tensors = tensors;
    const words = addresses(used, tensors.plan, tensors.block.start);
    this.#instance = instantiate(module, arena.memory, words, used.range_extent);
  }

  /** Throws KernelZooError (run). */
  run(): void {
    if (this.#warm) this.#instance.runAll();
    else runInSlices(this.#instance);
    this.#warm = true;
  }

  /** Rejects with KernelZooError: run, memory. */
  runOn(pool: ThreadPool): Promise<void> {
    const { used: kernel, module } = this.#made;
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
