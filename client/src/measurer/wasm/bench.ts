import type { Arena, Block } from "../../engine/arena.js";
import { KernelZooError } from "../../engine/error.js";
import { addresses, instantiate, type KernelInstance } from "../../engine/instance.js";
import { type PackModules, packTensors, plainTensors, runPack } from "../../engine/packing.js";
import { fillSeeded } from "../../engine/seeded.js";
import {
  align,
  type MemoryPlan,
  type OutputView,
  planMemory,
  poison,
  type Region,
  type TensorView,
  tensorBytes,
} from "../../engine/tensors.js";
import { now } from "../../timing/clock.js";
import type { KernelWire } from "../../wire/types.js";
import type { Subject } from "../measurement.js";

type Layout = KernelWire["layouts"][number];

/**
 * Between two uses of the same weights a network reads all its others. So weights are timed as
 * cold: runs take turns with copies of them that together exceed the caches of a core. Hot, 1x1
 * convolutions are up to a quarter faster, and other tiles are the best of them.
 */
const COLD_BYTES = 1 << 24;
const MOST_COPIES = 256;
/** So much is copied in less than a millisecond. */
const SLICE_BYTES = 1 << 21;

/** Names of the inputs that a workload says stay the same: weights. */
const constantsOf = (workload: string): ReadonlySet<string> =>
  new Set(/:constant=(\w+)/.exec(workload)?.[1] ?? "");

/** An input in a layout that some kernel wants. */
interface Packed {
  readonly layout: Layout;
  readonly block: Block;
  /** The milliseconds that packing it took for the first time. */
  packMs: number;
}

/** Further copies of `bytes`, one behind the other. */
interface Copies {
  readonly block: Block;
  readonly bytes: number;
  readonly count: number;
}

/** Work that may rest between two slices. */
type BenchSlices<Made = void> = Generator<void, Made>;

function atOnce<Made>(slices: BenchSlices<Made>): Made {
  for (;;) {
    const { done, value } = slices.next();
    if (done === true) return value;
  }
}

async function resting(slices: BenchSlices<unknown>, rest: () => Promise<void>): Promise<void> {
  while (slices.next().done !== true) await rest();
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
  readonly #cold: ReadonlySet<string>;
  readonly #copies = new Map<number, Copies>();

  /**
   * `hot` times weights in the caches, as frameworks that are timed beside have them. Inputs are
   * written by `reset` or `fill`. Throws KernelZooError (memory) when the tensors do not fit.
   */
  constructor(
    arena: Arena,
    subject: Subject,
    kernels: readonly KernelWire[],
    packs: PackModules,
    hot = false,
  ) {
    const scratch_bytes = Math.max(...kernels.map((kernel) => kernel.scratch_bytes));
    this.#arena = arena;
    this.#seed = subject.seed;
    this.#packs = packs;
    this.#cold = hot ? new Set() : constantsOf(subject.workload);
    this.#plan = planMemory({ tensors: [...plainTensors(subject.reference)], scratch_bytes });
    this.#block = arena.allocate(this.#plan.totalBytes);
  }

  /** Throws KernelZooError: compile, and memory or run where an input has to be packed first. */
  bind(kernel: KernelWire, module: WebAssembly.Module): KernelInstance {
    const turns = atOnce(this.#layingOut(kernel));
    return instantiate(module, this.#arena.memory, turns[0] ?? [], kernel.range_extent, turns);
  }

  /**
   * Does the part of `bind` that takes most time, before it and in slices. Throws KernelZooError:
   * memory, run.
   */
  layOut(kernel: KernelWire, rest: () => Promise<void>): Promise<void> {
    return resting(this.#layingOut(kernel), rest);
  }

  /** Milliseconds that packing the inputs of a bound kernel took. */
  packMs({ layouts }: KernelWire): number {
    return layouts.reduce((sum, { pack }) => sum + (this.#packed.get(pack.sha256)?.packMs ?? 0), 0);
  }

  /** Writes all inputs anew, as a kernel that failed may have written anywhere. */
  reset(): void {
    atOnce(this.#writing());
  }

  /** Writes all inputs in slices, with a rest after each. */
  fill(rest: () => Promise<void>): Promise<void> {
    return resting(this.#writing(), rest);
  }

  /**
   * Makes entries that a kernel does not write fail the comparison; states hold what they held at
   * first.
   */
  clearOutput(): void {
    poison(this.output);
    atOnce(this.#filling("state"));
  }

  /** Has a kernel write output and states once: the runs that warmed it up have moved states on. */
  settle({ runAll }: KernelInstance): void {
    if (this.states.length === 0) return;
    this.clearOutput();
    runAll();
  }

  /** The entries of the states, in their order. */
  get states(): readonly OutputView[] {
    const kept = this.#plan.regions.filter(({ tensor }) => tensor.role === "state");
    return kept.map((region) => this.#view(region) as OutputView);
  }

  get output(): OutputView {
    return this.#view(this.#plan.regions.at(-1) as Region) as OutputView;
  }

  dispose(): void {
    this.#arena.free(this.#block);
    for (const { block } of this.#packed.values()) this.#arena.free(block);
    for (const { block } of this.#copies.values()) this.#arena.free(block);
  }

  *#writing(): BenchSlices {
    yield* this.#filling("input");
    yield* this.#filling("state");
    for (const packed of this.#packed.values()) this.#pack(packed);
    for (const [start, copies] of this.#copies) yield* this.#copying(start, copies);
  }

  *#filling(role: "input" | "state"): BenchSlices {
    for (const [i, region] of this.#plan.regions.entries()) {
      const { tensor } = region;
      if (tensor.role !== role) continue;
      fillSeeded(this.#view(region), this.#seed, i, tensor);
      yield;
    }
  }

  /** The addresses of a kernel's tensors, once for each copy of its weights. */
  *#layingOut(kernel: KernelWire): BenchSlices<readonly (readonly number[])[]> {
    const words = [...addresses(kernel, this.#plan, this.#block.start)];
    for (const layout of kernel.layouts) {
      words[this.#numberOf(layout.tensor)] = this.#inLayout(layout).block.start;
      yield;
    }
    const at = kernel.tensors.findIndex(({ name }) => this.#cold.has(name));
    if (at < 0) return [words];
    const start = words[at] as number;
    const size = tensorBytes(kernel.tensors[at] as KernelWire["tensors"][number]);
    const { block, bytes, count } = yield* this.#copiesOf(start, size);
    const others = Array.from({ length: count }, (_, i) => block.start + i * bytes);
    return [start, ...others].map((address) => words.with(at, address));
  }

  /** Returns copies of the tensor at `start`; none where the engine has no memory for them. */
  *#copiesOf(start: number, size: number): BenchSlices<Copies> {
    const known = this.#copies.get(start);
    if (known !== undefined) return known;
    const bytes = align(size);
    // A tensor that is so large by itself is cold without a copy.
    const count = Math.min(MOST_COPIES, Math.ceil(COLD_BYTES / bytes)) - 1;
    try {
      const copies = { block: this.#arena.allocate(count * bytes), bytes, count };
      this.#copies.set(start, copies);
      yield* this.#copying(start, copies);
      return copies;
    } catch (thrown) {
      if (thrown instanceof KernelZooError && thrown.stage === "memory") {
        return { block: { start, end: start }, bytes, count: 0 };
      }
      throw thrown;
    }
  }

  *#copying(start: number, { block, bytes, count }: Copies): BenchSlices {
    const all = new Uint8Array(this.#arena.memory.buffer);
    for (let i = 0, slice = 0; i < count; i++) {
      all.copyWithin(block.start + i * bytes, start, start + bytes);
      slice += bytes;
      if (slice < SLICE_BYTES) continue;
      slice = 0;
      yield;
    }
  }

  #numberOf(name: string): number {
    return this.#plan.regions.findIndex(({ tensor }) => tensor.name === name);
  }

  #inLayout(layout: Layout): Packed {
    const { sha256 } = layout.pack;
    const known = this.#packed.get(sha256);
    if (known !== undefined) return known;
    const block = this.#arena.allocate(tensorBytes(packTensors(layout.pack).packed));
    const packed = { layout, block, packMs: 0 };
    this.#packed.set(sha256, packed);
    const start = now();
    this.#pack(packed);
    packed.packMs = now() - start;
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
