/** A kernel as a page has it: its inputs, constants, runs and verification. */
import type { Arena } from "../engine/arena.js";
import { maxDifference } from "../engine/difference.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { type LoadedKernel, loadWhole } from "../engine/modules.js";
import { plainTensors } from "../engine/packing.js";
import { fillSeeded, VERIFICATION_SEED } from "../engine/seeded.js";
import { elementsOf, poison, type Region, type TensorView } from "../engine/tensors.js";
import type { ServedKernel, TargetKind } from "../wire/types.js";
import { gpuFailure, noteHang } from "./backend.js";
import type { GpuKernel, GpuPart } from "./gpu-kernel.js";
import {
  describe,
  type KernelInfo,
  type KernelParts,
  type LoadedKernels,
  type RemotePart,
} from "./info.js";
import type { InputViews } from "./names.js";
import { type Placeable, Tensors, WasmKernel } from "./wasm-kernel.js";

/** The constant inputs of a kernel, and which of them have no values yet. */
export class Constants {
  readonly names: readonly string[];
  readonly #awaited: Set<string>;

  constructor(names: readonly string[]) {
    this.names = names;
    this.#awaited = new Set(names);
  }

  given(name: string): void {
    this.#awaited.delete(name);
  }

  /** Throws KernelZooError (run) for an input that is not constant. */
  refuseOther(name: string): void {
    if (this.names.includes(name)) return;
    const known = this.names.join(", ") || "none";
    throw new KernelZooError("run", `Input ${name} is not constant. Constant are: ${known}.`);
  }

  /** Throws KernelZooError (run) for an input of a run that is constant. */
  refuseConstant(name: string): void {
    if (!this.names.includes(name)) return;
    throw new KernelZooError(
      "run",
      `Input ${name} is constant. Use setConstants, or open the kernel without \`constant\`.`,
    );
  }

  /** Throws KernelZooError (run) until all have values. */
  refuseAwaited(): void {
    for (const name of this.#awaited) {
      throw new KernelZooError(
        "run",
        `Input ${name} is constant and has no values. Give them with setConstants.`,
      );
    }
  }
}

/**
 * Runs a wasm kernel on seeded inputs in memory of its own. Throws KernelZooError: memory, compile,
 * run.
 */
export function wasmOutput(arena: Arena, loaded: LoadedKernel): Float32Array {
  const tensors = new Tensors(arena, loaded);
  try {
    for (const [i, region] of tensors.plan.regions.slice(0, -1).entries()) {
      tensors.write(region, (view) => fillSeeded(view, VERIFICATION_SEED, i, region.tensor));
    }
    poison(tensors.output);
    new WasmKernel(loaded, arena, tensors).run();
    return tensors.output.slice();
  } finally {
    tensors.free();
  }
}

/** The comparison of every output entry with the default kernel's, on seeded inputs. */
export interface Verification {
  readonly ok: boolean;
  readonly maxError: number;
  readonly tolerance: number;
}

/** Values of some inputs, by name. */
export type InputValues<Inputs> = { readonly [Name in keyof Inputs]?: ArrayLike<number> };

/**
 * A kernel with its tensors. Views stay valid until `dispose`. Their memory is shared: take
 * `output.slice()` for the few browser functions that refuse shared views.
 */
export class Kernel<Inputs = InputViews> {
  /** Shape of every tensor, by name. */
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly #parts: KernelParts;
  readonly #shape: Placeable;
  readonly #constants: Constants;
  /** Number of entries of every input, by name. */
  readonly #elements: ReadonlyMap<string, number>;
  #info: KernelInfo;
  #remote: LoadedKernels<RemotePart> | null;
  #tensors: Tensors | null = null;
  #wasm: WasmKernel | null = null;
  /** The page has views to write to at any time. */
  #handedOut = false;
  #running = false;
  #disposed = false;

  /** Made by `KernelZoo.kernel`. Throws KernelZooError: memory, compile. */
  constructor(parts: KernelParts) {
    const { wasm, remote, backendReason } = parts;
    this.#info = describe(parts, remote, backendReason);
    this.#parts = parts;
    this.#remote = remote;
    this.#constants = new Constants(parts.constants);
    this.#shape = wasm?.made ?? {
      kernel: { tensors: remote?.used.tensors ?? [], layouts: [], scratch_bytes: 0 },
      packs: new Map(),
    };
    const plain = plainTensors(this.#shape.kernel);
    this.shapes = Object.fromEntries(plain.map(({ name, shape }) => [name, shape]));
    const inputs = plain.filter(({ role }) => role === "input");
    this.#elements = new Map(inputs.map((tensor) => [tensor.name, elementsOf(tensor)]));
    // A kernel that cannot be bound is to fail now, as another may take its place.
    if (remote === null) this.#bound();
  }

  get info(): KernelInfo {
    return this.#info;
  }

  /**
   * Row-major views to write to, by name: all inputs that are not constant. On WebGPU all of them
   * are uploaded by each run then.
   */
  get inputs(): Readonly<Inputs> {
    this.#handedOut = true;
    return this.#memory.inputs as unknown as Readonly<Inputs>;
  }

  /** Row-major view; each run overwrites it. */
  get output(): Float32Array {
    return this.#memory.output;
  }

  /** The kernel on the GPU, to chain runs without reading back; null on WebAssembly. */
  get gpu(): GpuKernel | null {
    const part = this.#remote?.made;
    return part?.target === "webgpu" ? part.kernel : null;
  }

  /**
   * Gives constant inputs their values, once for all runs that follow; the kernel may keep them
   * packed. Giving them again costs as much again. Throws KernelZooError: run for what is no
   * constant input of this kernel, memory.
   */
  setConstants(values: Readonly<Record<string, ArrayLike<number>>>): void {
    this.#refuseUnusable();
    for (const [name, given] of Object.entries(values)) {
      this.#constants.refuseOther(name);
      this.#refuseLength(name, given.length);
      const { regions } = this.#memory.plan;
      const region = regions.find(({ tensor }) => tensor.name === name) as Region;
      this.#memory.write(region, (view) => {
        view.set(given);
        this.#remote?.made.kernel.write(name, view);
      });
      this.#constants.given(name);
    }
  }

  /**
   * Runs once in this thread, on WebAssembly, and answers `output`. Inputs given here are copied
   * in first. Throws KernelZooError (run) when the kernel traps, is running or was disposed of.
   */
  run(inputs: InputValues<Inputs> = {}): Float32Array {
    this.#prepare(inputs);
    const bound = this.#bound();
    try {
      bound.run();
    } catch (thrown) {
      this.#note("wasm", thrown);
      throw thrown;
    }
    return this.output;
  }

  /**
   * Runs as `run` does, on the GPU or on all threads of the zoo, while this one goes on. Threads
   * make the same entries to the bit. Leave `inputs` and `output` alone until it resolves. On
   * WebGPU, inputs that are given here and whose views were never asked for stay on the GPU for
   * later runs. When the GPU is lost, WebAssembly takes over and `info` says so. Rejects with
   * KernelZooError: run as above, or memory.
   */
  async runAsync(inputs: InputValues<Inputs> = {}): Promise<Float32Array> {
    this.#prepare(inputs);
    this.#running = true;
    const target = this.#info.backend;
    try {
      if (this.#remote === null) await this.#runWasm();
      else await this.#runRemote(this.#remote, Object.keys(inputs));
    } catch (thrown) {
      this.#note(target, thrown);
      throw thrown;
    } finally {
      this.#running = false;
      if (this.#disposed) this.#release();
    }
    return this.output;
  }

  /**
   * Compares this kernel with the default one in every entry. `inputs` and `output` are left
   * as they are. A kernel that differs is told to the zoo, and is the default when it is opened
   * again. Rejects with KernelZooError as loading does.
   */
  async verify(): Promise<Verification> {
    this.#refuseUnusable();
    const comparison = await this.#compared();
    if (!comparison.ok) {
      const message = `Its output is off by ${comparison.maxError}; ${comparison.tolerance} is right.`;
      this.#note(this.#info.backend, new KernelZooError("compare", message));
    }
    return comparison;
  }

  /** Resolves to whether it runs and computes what the default does; what fails is noted. */
  async works(): Promise<boolean> {
    try {
      return (await this.verify()).ok || this.#isDefault;
    } catch (thrown) {
      this.#note(this.#info.backend, thrown);
      if (this.#isDefault) throw thrown;
      return false;
    }
  }

  get #isDefault(): boolean {
    const running = (this.#remote ?? this.#parts.wasm) as LoadedKernels<unknown>;
    return running.used.sha256 === running.served.fallback.sha256;
  }

  /** Tells the zoo of a failure of the kernel that runs on `target`. */
  #note(target: TargetKind, thrown: unknown): void {
    const { classes, entry, failures } = this.#parts;
    const artifact = this.#parts[target === "wasm" ? "wasm" : "remote"]?.used.sha256;
    if (artifact === undefined) return;
    failures.note({ workload: entry.workload, device_class: classes[target], artifact }, thrown);
  }

  async #compared(): Promise<Verification> {
    const { tolerance } = ((this.#remote ?? this.#parts.wasm) as LoadedKernels<unknown>).served;
    // Of JavaScript there is no other kernel than the default.
    if (this.#info.backend === "javascript") return { ok: true, maxError: 0, tolerance };
    const own = await this.#verified();
    const maxError = maxDifference(own, await this.#expected());
    return { ok: maxError <= tolerance, maxError, tolerance };
  }

  /** Gives the memory back, after a run that is under way; the views must not be used any more. */
  dispose(): void {
    if (!this.#disposed && !this.#running) this.#release();
    this.#disposed = true;
  }

  get #memory(): Tensors {
    this.#tensors ??= new Tensors(this.#parts.arena, this.#shape, this.#constants.names);
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
    const pool = await this.#parts.threads.pool();
    if (pool === null) this.#bound().run();
    else await this.#bound().runOn(pool);
  }

  async #runRemote(
    { made: { kernel } }: LoadedKernels<RemotePart>,
    given: readonly string[],
  ): Promise<void> {
    const { inputs, output } = this.#memory;
    const failed = gpuFailure();
    if (failed !== null && this.#parts.wasm !== null) return this.#leaveGpu(failed);
    try {
      const changed = this.#handedOut ? Object.keys(inputs) : given;
      for (const name of changed) kernel.write(name, inputs[name] as TensorView);
      await kernel.run();
      output.set(await kernel.read());
    } catch (thrown) {
      const late = noteHang(thrown);
      if (this.#parts.wasm === null || (kernel.loss === null && !late)) throw thrown;
      this.#note("webgpu", thrown);
      await this.#leaveGpu(gpuFailure() ?? sentence(thrown));
    }
  }

  async #leaveGpu(reason: string): Promise<void> {
    this.#remote = null;
    this.#info = describe(this.#parts, null, reason);
    await this.#runWasm();
  }

  #verified(): Promise<Float32Array> | Float32Array {
    const { arena, wasm } = this.#parts;
    const part = this.#remote?.made;
    if (part?.target === "webgpu") return part.seededOutput();
    return wasm === null ? new Float32Array() : wasmOutput(arena, wasm.made);
  }

  /**
   * The output of the default kernel; of WebAssembly where there is one, so that two engines agree.
   */
  async #expected(): Promise<Float32Array> {
    const { origin, deadline, arena, entry } = this.#parts;
    if (entry.wasm !== null) {
      const used = entry.wasm.fallback;
      return wasmOutput(arena, await loadWhole(origin, used, deadline()));
    }
    const part = this.#remote?.made as GpuPart;
    return part.seededOutput((entry.webgpu as ServedKernel).fallback);
  }

  #release(): void {
    this.#wasm?.dispose();
    this.#tensors?.free();
    // The parts know it even where WebAssembly took over.
    this.#parts.remote?.made.kernel.dispose();
  }

  #prepare(inputs: InputValues<Inputs>): void {
    this.#refuseUnusable();
    this.#constants.refuseAwaited();
    const given = inputs as Readonly<Record<string, ArrayLike<number> | undefined>>;
    for (const [name, values] of Object.entries(given)) this.#set(name, values);
  }

  #set(name: string, values: ArrayLike<number> | undefined): void {
    if (values === undefined) return;
    this.#constants.refuseConstant(name);
    this.#refuseLength(name, values.length);
    this.#memory.inputs[name]?.set(values);
  }

  #refuseLength(name: string, length: number): void {
    const elements = this.#elements.get(name);
    if (length === elements) return;
    throw new KernelZooError(
      "run",
      `Input ${name} has ${length} entries; ${this.info.workload} takes ` +
        `${elements ?? "no such input"}. Inputs are ${[...this.#elements.keys()].join(", ")}.`,
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
