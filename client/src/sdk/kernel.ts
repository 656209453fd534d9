import { type Arena, align, type Block } from "../engine/arena.js";
import { KernelZooError } from "../engine/error.js";
import { addresses, instantiate, type KernelInstance, runInSlices } from "../engine/instance.js";
import type { LoadedKernel } from "../engine/loaded.js";
import { plainTensors, writeInput } from "../engine/packing.js";
import { elementsOf, type MemoryPlan, planMemory, type Region } from "../engine/plan.js";
import type { TensorView } from "../engine/views.js";
import type { ThreadedKernel, ThreadPool } from "../threads/pool.js";
import type { Threads } from "../threads/threads.js";
import type { EntryState, Evidence, HitLevel, ManifestEntry } from "../wire/types.js";
import type { InputViews } from "./names.js";
import { type Verification, verified } from "./verify.js";

/** What is running, and why. Times in milliseconds. */
export interface KernelInfo {
  /** Ends in `:constant=b` where the kernel was chosen for weights that stay the same. */
  readonly workload: string;
  /** Floating-point operations of one run. */
  readonly flops: number;
  /** `exact` was voted for by devices like this one; `default` is what every device gets. */
  readonly level: HitLevel;
  readonly state: EntryState | null;
  readonly version: number | null;
  readonly evidence: Evidence | null;
  readonly candidate: string;
  readonly sha256: string;
  /** Why the default runs instead of the zoo's kernel; null when the zoo's kernel runs. */
  readonly fallbackReason: string | null;
  /** Threads of `runAsync`. */
  readonly threads: number;
  /** Why there is one thread although more were asked for; null otherwise. */
  readonly singleThreadReason: string | null;
  readonly manifestMs: number;
  /** Fetching, checking and compiling. */
  readonly loadMs: number;
}

/** What a kernel is made from; of interest to this module's neighbours alone. */
export interface KernelParts {
  readonly origin: URL;
  readonly arena: Arena;
  readonly threads: Threads;
  readonly entry: ManifestEntry;
  readonly used: LoadedKernel;
  /** Names of inputs that stay the same. */
  readonly constants: readonly string[];
  readonly info: KernelInfo;
}

/** Values of some inputs, by name. */
export type InputValues<Inputs> = { readonly [Name in keyof Inputs]?: ArrayLike<number> };

interface BoundToThreads {
  readonly kernel: ThreadedKernel;
  readonly scratch: Block;
}

/** Threads share the tensors at `base`; each has scratch of its own. */
function bindToThreads(
  { arena, used: { kernel, module } }: KernelParts,
  pool: ThreadPool,
  plan: MemoryPlan,
  base: number,
): BoundToThreads {
  const stride = align(kernel.scratch_bytes);
  const scratch = arena.allocate(stride * pool.size);
  const wordsOf = (thread: number): readonly number[] => {
    const own = { ...plan, scratchOffset: scratch.start + thread * stride - base };
    return addresses(kernel, own, base);
  };
  return { kernel: pool.bind({ module, extent: kernel.range_extent, wordsOf }), scratch };
}

/**
 * A kernel with its tensors in memory. Views stay valid until `dispose`. The memory is shared:
 * take `output.slice()` for the few browser functions that refuse shared views.
 */
export class Kernel<Inputs = InputViews> {
  readonly info: KernelInfo;
  /** Row-major views to write to, by name: all inputs that are not constant. */
  readonly inputs: Readonly<Inputs>;
  /** Row-major view; each run overwrites it. */
  readonly output: Float32Array;
  /** Shape of every tensor, by name. */
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly #parts: KernelParts;
  readonly #plan: MemoryPlan;
  readonly #block: Block;
  readonly #instance: KernelInstance;
  /** Constant inputs that have no values yet. */
  readonly #awaited: Set<string>;
  #threaded: BoundToThreads | null = null;
  #warm = false;
  #running = false;
  #disposed = false;

  /** Made by `KernelZoo.kernel`. Throws KernelZooError: memory, compile. */
  constructor(parts: KernelParts) {
    const { arena, constants } = parts;
    const { kernel, module } = parts.used;
    const plan: MemoryPlan = planMemory(kernel);
    this.info = parts.info;
    this.#parts = parts;
    this.#plan = plan;
    this.#block = arena.allocate(plan.totalBytes);
    this.#awaited = new Set(constants);
    const words = addresses(kernel, plan, this.#block.start);
    this.#instance = instantiate(module, arena.memory, words, kernel.range_extent);
    const inputs = plan.regions.slice(0, -1).filter(({ tensor }) => !this.#isConstant(tensor.name));
    this.inputs = Object.fromEntries(
      inputs.map((region) => [region.tensor.name, this.#view(region)]),
    ) as Inputs;
    this.output = this.#view(plan.regions.at(-1) as Region) as Float32Array;
    const plain = plainTensors(kernel);
    this.shapes = Object.fromEntries(plain.map(({ name, shape }) => [name, shape]));
  }

  /**
   * Gives constant inputs their values, once for all runs that follow; the kernel may keep them
   * packed. Giving them again costs as much again. Throws KernelZooError: run for what is no
   * constant input of this kernel, memory.
   */
  setConstants(values: Readonly<Record<string, ArrayLike<number>>>): void {
    this.#refuseUnusable();
    for (const [name, given] of Object.entries(values)) {
      const region = this.#constantRegion(name, given.length);
      const { arena, used } = this.#parts;
      writeInput(arena, used, region, this.#block.start, (view) => view.set(given));
      this.#awaited.delete(name);
    }
  }

  /**
   * Runs once in this thread and answers `output`. Inputs given here are copied in first.
   * Throws KernelZooError (run) when the kernel traps, is running or was disposed of.
   */
  run(inputs: InputValues<Inputs> = {}): Float32Array {
    this.#prepare(inputs);
    if (this.#warm) this.#instance.runAll();
    else runInSlices(this.#instance);
    this.#warm = true;
    return this.output;
  }

  /**
   * As `run`, on all threads of the zoo, while this one goes on; entries are the same to the bit.
   * Leave `inputs` and `output` alone until it resolves. Where there are no threads it is `run`.
   * Rejects with KernelZooError: run as above, or memory.
   */
  async runAsync(inputs: InputValues<Inputs> = {}): Promise<Float32Array> {
    const { threads } = this.#parts;
    if (threads.kind === "single") return this.run(inputs);
    this.#prepare(inputs);
    this.#running = true;
    try {
      this.#threaded ??= bindToThreads(this.#parts, threads.pool, this.#plan, this.#block.start);
      await this.#threaded.kernel.run();
    } finally {
      this.#running = false;
      if (this.#disposed) this.#release();
    }
    return this.output;
  }

  /**
   * Compares this kernel with the default one in every entry. `inputs` and `output` are left
   * as they are. Throws KernelZooError as loading does.
   */
  async verify(): Promise<Verification> {
    this.#refuseUnusable();
    const { origin, arena, entry, used } = this.#parts;
    return verified(origin, arena, entry, used);
  }

  /** Gives the memory back, after a run that is under way; the views must not be used any more. */
  dispose(): void {
    if (!this.#disposed && !this.#running) this.#release();
    this.#disposed = true;
  }

  #release(): void {
    const { arena } = this.#parts;
    this.#threaded?.kernel.forget();
    if (this.#threaded !== null) arena.free(this.#threaded.scratch);
    arena.free(this.#block);
  }

  #view({ tensor, offset, elements }: Region): TensorView {
    return this.#parts.arena.view(this.#block.start + offset, tensor, elements);
  }

  #isConstant(name: string): boolean {
    return this.#parts.constants.includes(name);
  }

  /** Throws KernelZooError (run) for what is no constant input of so many entries. */
  #constantRegion(name: string, length: number): Region {
    const at = this.#plan.regions.findIndex(({ tensor }) => tensor.name === name);
    const tensor = plainTensors(this.#parts.used.kernel)[at];
    if (tensor === undefined || !this.#isConstant(name)) {
      const known = this.#parts.constants.join(", ") || "none";
      throw new KernelZooError("run", `Input ${name} is not constant. Constant are: ${known}.`);
    }
    this.#refuseLength(name, length, elementsOf(tensor));
    return this.#plan.regions[at] as Region;
  }

  #prepare(inputs: InputValues<Inputs>): void {
    this.#refuseUnusable();
    for (const name of this.#awaited) {
      throw new KernelZooError(
        "run",
        `Input ${name} is constant and has no values. Give them once, with setConstants({ ${name} }).`,
      );
    }
    const given = inputs as Readonly<Record<string, ArrayLike<number> | undefined>>;
    for (const [name, values] of Object.entries(given)) this.#set(name, values);
  }

  #set(name: string, values: ArrayLike<number> | undefined): void {
    if (values === undefined) return;
    if (this.#isConstant(name)) {
      throw new KernelZooError(
        "run",
        `Input ${name} is constant. Change it with setConstants, or open the kernel without ` +
          "`constant` where each run has other values.",
      );
    }
    const view = (this.inputs as InputViews)[name];
    this.#refuseLength(name, values.length, view?.length);
    view?.set(values);
  }

  #refuseLength(name: string, length: number, wanted: number | undefined): void {
    if (length === wanted) return;
    throw new KernelZooError(
      "run",
      `Input ${name} has ${length} entries; ${this.info.workload} takes ` +
        `${wanted ?? "no such input"}. Inputs are ${Object.keys(this.shapes).slice(0, -1).join(", ")}.`,
    );
  }

  #refuseUnusable(): void {
    if (this.#disposed) {
      throw new KernelZooError("run", "This kernel was disposed of. Open it again with the zoo.");
    }
    if (this.#running) {
      throw new KernelZooError("run", "This kernel is running. Await its `runAsync` first.");
    }
  }
}
