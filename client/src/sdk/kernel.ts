import { loadModule } from "../engine/artifact.js";
import { maxDifference } from "../engine/compare.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { comparisonTolerance } from "../engine/seeded.js";
import { loadProgram } from "../gpu/load.js";
import type { KernelWire, ServedKernel } from "../wire/types.js";
import type { GpuKernel } from "./gpu-kernel.js";
import { describe, type GpuPart, type KernelInfo, type KernelParts, type Loaded } from "./info.js";
import { Tensors } from "./tensors.js";
import { gpuOutput, wasmOutput } from "./verify.js";
import { WasmKernel } from "./wasm-kernel.js";

/** Of every output entry against the default kernel, on seeded inputs. */
export interface Verification {
  readonly ok: boolean;
  readonly maxError: number;
  readonly tolerance: number;
}

/** Values of some inputs, by name. */
export type InputValues<Names extends string> = Partial<Readonly<Record<Names, ArrayLike<number>>>>;

/**
 * A kernel with its tensors. Views stay valid until `dispose`. Their memory is shared: take
 * `output.slice()` for the few browser functions that refuse shared views.
 */
export class Kernel<Names extends string = string> {
  /** Shape of every tensor, by name. */
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly #parts: KernelParts;
  readonly #shape: Pick<KernelWire, "tensors" | "scratch_bytes">;
  #info: KernelInfo;
  #gpu: Loaded<GpuPart> | null;
  #tensors: Tensors | null = null;
  #wasm: WasmKernel | null = null;
  /** The page has views to write to at any time. */
  #handedOut = false;
  #running = false;
  #disposed = false;

  /** Made by `KernelZoo.kernel`. Throws KernelZooError: memory, compile. */
  constructor(parts: KernelParts) {
    const { wasm, gpu, backendReason } = parts;
    this.#info = describe(parts, gpu, backendReason);
    this.#parts = parts;
    this.#gpu = gpu;
    const { tensors } = (gpu ?? wasm)?.used ?? { tensors: [] };
    this.#shape = wasm?.used ?? { tensors, scratch_bytes: 0 };
    this.shapes = Object.fromEntries(tensors.map(({ name, shape }) => [name, shape]));
    // A kernel that cannot be bound is to fail now, as another may take its place.
    if (gpu === null) this.#bound();
  }

  get info(): KernelInfo {
    return this.#info;
  }

  /** Row-major views to write to, by name. On WebGPU all of them are uploaded by each run then. */
  get inputs(): Readonly<Record<Names, Float32Array>> {
    this.#handedOut = true;
    return this.#memory.inputs as Readonly<Record<Names, Float32Array>>;
  }

  /** Row-major view; each run overwrites it. */
  get output(): Float32Array {
    return this.#memory.output;
  }

  /** The kernel on the GPU, to chain runs without reading back; null on WebAssembly. */
  get gpu(): GpuKernel | null {
    return this.#gpu?.made.kernel ?? null;
  }

  /**
   * Runs once in this thread, on WebAssembly, and answers `output`. Inputs given here are copied
   * in first. Throws KernelZooError (run) when the kernel traps, is running or was disposed of.
   */
  run(inputs: InputValues<Names> = {}): Float32Array {
    this.#prepare(inputs);
    this.#bound().run();
    return this.output;
  }

  /**
   * As `run`, on the GPU or on all threads of the zoo, while this one goes on. Threads make the
   * same entries to the bit. Leave `inputs` and `output` alone until it resolves. On WebGPU,
   * inputs that are given here and whose views were never asked for stay on the GPU for later
   * runs. When the GPU is lost, WebAssembly takes over and `info` says so.
   * Rejects with KernelZooError: run as above, or memory.
   */
  async runAsync(inputs: InputValues<Names> = {}): Promise<Float32Array> {
    this.#prepare(inputs);
    this.#running = true;
    try {
      if (this.#gpu === null) await this.#runWasm();
      else await this.#runGpu(this.#gpu, Object.keys(inputs));
    } finally {
      this.#running = false;
      if (this.#disposed) this.#release();
    }
    return this.output;
  }

  /**
   * Compares this kernel with the default one in every entry. `inputs` and `output` are left
   * as they are. Rejects with KernelZooError as loading does.
   */
  async verify(): Promise<Verification> {
    this.#refuseUnusable();
    const own = await this.#verified();
    const maxError = maxDifference(own, await this.#expected());
    // A contraction does two operations for each product that is summed into an entry.
    const tolerance = comparisonTolerance(this.info.flops / 2 / own.length);
    return { ok: maxError <= tolerance, maxError, tolerance };
  }

  /** Gives the memory back, after a run that is under way; the views must not be used any more. */
  dispose(): void {
    if (!this.#disposed && !this.#running) this.#release();
    this.#disposed = true;
  }

  get #memory(): Tensors {
    this.#tensors ??= new Tensors(this.#parts.arena, this.#shape);
    return this.#tensors;
  }

  #bound(): WasmKernel {
    const { wasm, arena, entry } = this.#parts;
    if (wasm === null) {
      const message = `The zoo has no kernel of wasm for ${entry.workload}. Await runAsync().`;
      throw new KernelZooError("run", message);
    }
    this.#wasm ??= new WasmKernel(wasm.made, arena, this.#memory);
    return this.#wasm;
  }

  async #runWasm(): Promise<void> {
    const { threads } = this.#parts;
    if (threads.kind === "single") this.#bound().run();
    else await this.#bound().runOn(threads.pool);
  }

  async #runGpu({ made: { kernel } }: Loaded<GpuPart>, given: readonly string[]): Promise<void> {
    const { inputs, output } = this.#memory;
    try {
      const changed = this.#handedOut ? Object.keys(inputs) : given;
      for (const name of changed) kernel.write(name, inputs[name] as Float32Array);
      await kernel.run();
      output.set(await kernel.read());
    } catch (thrown) {
      if (kernel.loss === null || this.#parts.wasm === null) throw thrown;
      this.#gpu = null;
      this.#info = describe(this.#parts, null, sentence(thrown));
      await this.#runWasm();
    }
  }

  #verified(): Promise<Float32Array> | Float32Array {
    const { arena, wasm } = this.#parts;
    if (this.#gpu !== null) return gpuOutput(this.#gpu.made.program, this.#gpu.used);
    return wasm === null ? new Float32Array() : wasmOutput(arena, wasm.made);
  }

  /** Of the default kernel: of WebAssembly where there is one, so that two engines agree. */
  async #expected(): Promise<Float32Array> {
    const { origin, arena, entry } = this.#parts;
    if (entry.wasm !== null) {
      const used = entry.wasm.fallback;
      return wasmOutput(arena, { used, module: await loadModule(origin, used) });
    }
    const used = (entry.webgpu as ServedKernel).fallback;
    const { open } = (this.#gpu as Loaded<GpuPart>).made.program;
    return gpuOutput(await loadProgram(open, origin, used), used);
  }

  #release(): void {
    this.#wasm?.dispose();
    this.#tensors?.free();
    // The parts know it even where WebAssembly took over.
    this.#parts.gpu?.made.kernel.dispose();
  }

  #prepare(inputs: InputValues<Names>): void {
    this.#refuseUnusable();
    for (const name of Object.keys(inputs) as Names[]) this.#set(name, inputs[name]);
  }

  #set(name: Names, values: ArrayLike<number> | undefined): void {
    if (values === undefined) return;
    const { inputs } = this.#memory;
    const view = inputs[name];
    if (view?.length !== values.length) {
      throw new KernelZooError(
        "run",
        `Input ${name} has ${values.length} entries; ${this.info.workload} takes ` +
          `${view?.length ?? "no such input"}. Inputs are ${Object.keys(inputs).join(", ")}.`,
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
