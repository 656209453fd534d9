import type { Arena, Block } from "../engine/arena.js";
import { loadModule } from "../engine/artifact.js";
import { maxDifference } from "../engine/compare.js";
import { KernelZooError } from "../engine/error.js";
import { addresses, instantiate, type KernelInstance } from "../engine/instance.js";
import { type MemoryPlan, planMemory, type Region } from "../engine/plan.js";
import { comparisonTolerance, fillSeeded } from "../engine/seeded.js";
import { type BoundToThreads, bindToThreads, type Placed } from "../threads/bind.js";
import type { Threads } from "../threads/threads.js";
import type { EntryState, Evidence, HitLevel, KernelWire } from "../wire/types.js";
import type { WasmEntry } from "./manifest.js";

/** What is running, and why. Times in milliseconds. */
export interface KernelInfo {
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

/** Of every output entry against the default kernel, on seeded inputs. */
export interface Verification {
  readonly ok: boolean;
  readonly maxError: number;
  readonly tolerance: number;
}

/** What a kernel is made from; of interest to this module's neighbours alone. */
export interface KernelParts {
  readonly origin: URL;
  readonly arena: Arena;
  readonly threads: Threads;
  readonly entry: WasmEntry;
  readonly used: KernelWire;
  readonly module: WebAssembly.Module;
  readonly info: KernelInfo;
}

const VERIFICATION_SEED = 1;
/** The first run goes in this many slices, so that optimised code takes over within it. */
const FIRST_RUN_SLICES = 32;

function runInSlices({ extent, run }: KernelInstance): void {
  const units = Math.max(1, Math.ceil(extent / FIRST_RUN_SLICES));
  for (let lo = 0; lo < extent; lo += units) run(lo, Math.min(lo + units, extent));
}

/** The entries of one kernel's output on seeded inputs, in a block of its own. */
function seededOutput(
  { arena, used: { tensors } }: KernelParts,
  kernel: KernelWire,
  module: WebAssembly.Module,
): Float32Array {
  const plan = planMemory({ tensors, scratch_bytes: kernel.scratch_bytes });
  const block = arena.allocate(plan.totalBytes);
  try {
    const view = ({ offset, elements }: Region) => arena.floats(block.start + offset, elements);
    const output = plan.regions.length - 1;
    for (const [i, region] of plan.regions.entries()) {
      if (i === output) view(region).fill(Number.NaN);
      else fillSeeded(view(region), VERIFICATION_SEED, i);
    }
    const words = addresses(kernel, plan, block.start);
    instantiate(module, arena.memory, words, kernel.range_extent).runAll();
    return view(plan.regions[output] as Region).slice();
  } finally {
    arena.free(block);
  }
}

/** Values of some inputs, by name. */
export type InputValues<Names extends string> = Partial<Readonly<Record<Names, ArrayLike<number>>>>;

/**
 * A kernel with its tensors in memory. Views stay valid until `dispose`. The memory is shared:
 * take `output.slice()` for the few browser functions that refuse shared views.
 */
export class Kernel<Names extends string = string> {
  readonly info: KernelInfo;
  /** Row-major views to write to, by name. */
  readonly inputs: Readonly<Record<Names, Float32Array>>;
  /** Row-major view; each run overwrites it. */
  readonly output: Float32Array;
  /** Shape of every tensor, by name. */
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly #parts: KernelParts;
  readonly #plan: MemoryPlan;
  readonly #block: Block;
  readonly #instance: KernelInstance;
  #threaded: BoundToThreads | null = null;
  #warm = false;
  #running = false;
  #disposed = false;

  /** Made by `KernelZoo.kernel`. Throws KernelZooError: memory, compile. */
  constructor(parts: KernelParts) {
    const { arena, used, module } = parts;
    const plan: MemoryPlan = planMemory(used);
    this.info = parts.info;
    this.#parts = parts;
    this.#plan = plan;
    this.#block = arena.allocate(plan.totalBytes);
    const words = addresses(used, plan, this.#block.start);
    this.#instance = instantiate(module, arena.memory, words, used.range_extent);
    const views = plan.regions.map(({ tensor, offset, elements }) => {
      return [tensor, arena.floats(this.#block.start + offset, elements)] as const;
    });
    const inputs = views.filter(([tensor]) => tensor.role === "input");
    this.inputs = Object.fromEntries(
      inputs.map(([tensor, view]) => [tensor.name, view]),
    ) as unknown as Record<Names, Float32Array>;
    this.output = views.find(([tensor]) => tensor.role === "output")?.[1] ?? new Float32Array();
    this.shapes = Object.fromEntries(used.tensors.map(({ name, shape }) => [name, shape]));
  }

  /**
   * Runs once in this thread and answers `output`. Inputs given here are copied in first.
   * Throws KernelZooError (run) when the kernel traps, is running or was disposed of.
   */
  run(inputs: InputValues<Names> = {}): Float32Array {
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
  async runAsync(inputs: InputValues<Names> = {}): Promise<Float32Array> {
    const { threads } = this.#parts;
    if (threads.kind === "single") return this.run(inputs);
    this.#prepare(inputs);
    this.#running = true;
    try {
      this.#threaded ??= bindToThreads(this.#placed(), threads.pool);
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
    const { origin, entry, used, module } = this.#parts;
    const fallback = await loadModule(origin, entry.fallback);
    const own = seededOutput(this.#parts, used, module);
    const maxError = maxDifference(own, seededOutput(this.#parts, entry.fallback, fallback));
    // A contraction does two operations for each product that is summed into an entry.
    const tolerance = comparisonTolerance(entry.flops / 2 / own.length);
    return { ok: maxError <= tolerance, maxError, tolerance };
  }

  /** Gives the memory back, after a run that is under way; the views must not be used any more. */
  dispose(): void {
    if (!this.#disposed && !this.#running) this.#release();
    this.#disposed = true;
  }

  #placed(): Placed {
    const { arena, used, module } = this.#parts;
    return { arena, kernel: used, module, plan: this.#plan, base: this.#block.start };
  }

  #release(): void {
    const { arena } = this.#parts;
    this.#threaded?.kernel.forget();
    if (this.#threaded !== null) arena.free(this.#threaded.scratch);
    arena.free(this.#block);
  }

  #prepare(inputs: InputValues<Names>): void {
    this.#refuseUnusable();
    for (const name of Object.keys(inputs) as Names[]) this.#set(name, inputs[name]);
  }

  #set(name: Names, values: ArrayLike<number> | undefined): void {
    if (values === undefined) return;
    const view = this.inputs[name];
    if (view?.length !== values.length) {
      throw new KernelZooError(
        "run",
        `Input ${name} has ${values.length} entries; ${this.info.workload} takes ` +
          `${view?.length ?? "no such input"}. Inputs are ${Object.keys(this.inputs).join(", ")}.`,
      );
    }
    view.set(values);
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
