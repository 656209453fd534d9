import type { Arena, Block } from "../engine/arena.js";
import { addresses, instantiate, type KernelInstance } from "../engine/instance.js";
import { type PackModules, packTensors, plainTensors, runPack } from "../engine/packing.js";
import {
  type MemoryPlan,
  type OutputView,
  planMemory,
  poison,
  type Region,
  type TensorView,
  tensorBytes,
} from "../engine/tensors.js";
import { fillSeeded } from "../engine/verification.js";
import type { KernelWire, Lease } from "../wire/types.js";

type Layout = KernelWire["layouts"][number];

/** An input in a layout that some kernel wants. */
interface Packed {
  readonly layout: Layout;
  readonly block: Block;
}

/**
 * The tensors of one lease in memory, and one scratch that its kernels use in turn. An input is
 * packed once for each layout, when the first kernel that wants it is bound, so that no timing
 * includes it.
 */
export class Bench {
  readonly #arena: Arena;
  readonly #plan: MemoryPlan;
  readonly #block: Block;
  readonly #seed: number;
  readonly #packs: PackModules;
  readonly #packed = new Map<string, Packed>();

  /** Throws KernelZooError (memory) when the tensors do not fit. */
  constructor(arena: Arena, lease: Lease, kernels: readonly KernelWire[], packs: PackModules) {
    const scratch_bytes = Math.max(...kernels.map((kernel) => kernel.scratch_bytes));
    this.#arena = arena;
    this.#seed = lease.seed;
    this.#packs = packs;
    this.#plan = planMemory({ tensors: [...plainTensors(lease.reference)], scratch_bytes });
    this.#block = arena.allocate(this.#plan.totalBytes);
    this.reset();
  }

  /** Throws KernelZooError: compile, and memory or run where an input has to be packed first. */
  bind(kernel: KernelWire, module: WebAssembly.Module): KernelInstance {
    const words = [...addresses(kernel, this.#plan, this.#block.start)];
    for (const layout of kernel.layouts) {
      words[this.#numberOf(layout.tensor)] = this.#inLayout(layout).block.start;
    }
    return instantiate(module, this.#arena.memory, words, kernel.range_extent);
  }

  /** Writes all inputs anew, as a kernel that failed may have written anywhere. */
  reset(): void {
    for (const [i, region] of this.#plan.regions.entries()) {
      const { tensor } = region;
      if (tensor.role === "input") fillSeeded(this.#view(region), this.#seed, i, tensor);
    }
    for (const packed of this.#packed.values()) this.#pack(packed);
  }

  /** Makes entries that a kernel does not write fail the comparison. */
  clearOutput(): void {
    poison(this.output);
  }

  get output(): OutputView {
    return this.#view(this.#plan.regions.at(-1) as Region) as OutputView;
  }

  dispose(): void {
    this.#arena.free(this.#block);
    for (const { block } of this.#packed.values()) this.#arena.free(block);
  }

  #numberOf(name: string): number {
    return this.#plan.regions.findIndex(({ tensor }) => tensor.name === name);
  }

  #inLayout(layout: Layout): Packed {
    const { sha256 } = layout.pack;
    const known = this.#packed.get(sha256);
    if (known !== undefined) return known;
    const block = this.#arena.allocate(tensorBytes(packTensors(layout.pack).packed));
    const packed = { layout, block };
    this.#packed.set(sha256, packed);
    this.#pack(packed);
    return packed;
  }

  #pack({ layout, block }: Packed): void {
    const { offset } = this.#plan.regions[this.#numberOf(layout.tensor)] as Region;
    runPack(this.#arena, layout.pack, this.#packs, this.#block.start + offset, block.start);
  }

  #view({ tensor, offset, elements }: Region): TensorView {
    return this.#arena.view(this.#block.start + offset, tensor, elements);
  }
}
