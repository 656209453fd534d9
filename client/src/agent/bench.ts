import type { Arena, Block } from "../engine/arena.js";
import { addresses, instantiate, type KernelInstance } from "../engine/instance.js";
import { type MemoryPlan, planMemory, type Region } from "../engine/plan.js";
import { fillSeeded } from "../engine/seeded.js";
import type { KernelWire, Lease } from "../wire/types.js";

/** The tensors of one lease in memory, and one scratch that its kernels use in turn. */
export class Bench {
  readonly #arena: Arena;
  readonly #plan: MemoryPlan;
  readonly #block: Block;
  readonly #seed: number;

  /** Throws KernelZooError (memory) when the tensors do not fit. */
  constructor(arena: Arena, lease: Lease, kernels: readonly KernelWire[]) {
    const scratch_bytes = Math.max(...kernels.map((kernel) => kernel.scratch_bytes));
    this.#arena = arena;
    this.#seed = lease.seed;
    this.#plan = planMemory({ tensors: lease.reference.tensors, scratch_bytes });
    this.#block = arena.allocate(this.#plan.totalBytes);
    this.reset();
  }

  bind(kernel: KernelWire, module: WebAssembly.Module): KernelInstance {
    const words = addresses(kernel, this.#plan, this.#block.start);
    return instantiate(module, this.#arena.memory, words, kernel.range_extent);
  }

  /** Inputs from the seed again: a kernel that fails may have written anywhere. */
  reset(): void {
    for (const [i, region] of this.#plan.regions.entries()) {
      if (region.tensor.role === "input") fillSeeded(this.#view(region), this.#seed, i);
    }
  }

  /** Makes entries that a kernel does not write fail the comparison. */
  clearOutput(): void {
    this.output.fill(Number.NaN);
  }

  get output(): Float32Array {
    const region = this.#plan.regions.find(({ tensor }) => tensor.role === "output");
    return region === undefined ? new Float32Array() : this.#view(region);
  }

  dispose(): void {
    this.#arena.free(this.#block);
  }

  #view(region: Region): Float32Array {
    return this.#arena.floats(this.#block.start + region.offset, region.elements);
  }
}
