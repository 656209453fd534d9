/** Kernels on the GPU, which a page loads with its first one. */
import { BoundProgram, runInSlices } from "../backend/webgpu/binding.js";
import {
  type GpuEntries,
  padded,
  stagingBuffer,
  storageBuffer,
  stored,
  storedBytes,
  suitsFloat16,
  viewOfStored,
  writeEntries,
} from "../backend/webgpu/buffers.js";
import type { OpenDevice } from "../backend/webgpu/device.js";
import { loadProgram, type Program } from "../backend/webgpu/program.js";
import { KernelZooError } from "../engine/error.js";
import { fillSeeded, VERIFICATION_SEED } from "../engine/seeded.js";
import { elementsOf, isViewOf, type TensorView, zerosOf } from "../engine/tensors.js";
import { now } from "../timing/clock.js";
import type { KernelWire, TensorWire } from "../wire/types.js";
import type { Source } from "./manifest.js";

/** The first run compiles in the driver, and a slow GPU takes as long as it takes. */
const LIMIT_MS = 60_000;
/** A kernel that takes longer is run in slices, so that the page can draw between them. */
const WHOLE_MS = 100;

/** Buffers of a page's own in place of those of the kernel, by the name of the tensor. */
export type GpuBuffers = Readonly<Record<string, GPUBuffer>>;

/**
 * A kernel whose tensors are on the GPU. Nothing waits unless the page reads: submit as many runs
 * as you like, and read the last output. Buffers are STORAGE, COPY_SRC and COPY_DST, padded to 16
 * bytes.
 */
export class GpuKernel {
  readonly device: GPUDevice;
  /** One for each tensor, by name. An output may be another kernel's input: see `KernelOptions`. */
  readonly buffers: GpuBuffers;
  readonly #open: OpenDevice;
  readonly #bound: BoundProgram;
  readonly #tensors: readonly TensorWire[];
  readonly #owned: readonly GPUBuffer[];
  readonly #staging = new Map<number, GPUBuffer[]>();
  /** The last run in slices took so long. */
  #callMs = Number.POSITIVE_INFINITY;

  private constructor(
    program: Program,
    buffers: GpuBuffers,
    bound: BoundProgram,
    owned: readonly GPUBuffer[],
  ) {
    this.device = program.open.device;
    this.buffers = buffers;
    this.#open = program.open;
    this.#bound = bound;
    this.#tensors = program.kernel.tensors;
    this.#owned = owned;
  }

  /** Throws KernelZooError: memory, validate for buffers that do not fit, run. */
  static async make(program: Program, given: GpuBuffers = {}): Promise<GpuKernel> {
    const { open, kernel } = program;
    return open.scoped(() => {
      const owned: GPUBuffer[] = [];
      const own = (bytes: number): GPUBuffer => {
        const buffer = storageBuffer(open.device, bytes);
        owned.push(buffer);
        return buffer;
      };
      const tensors = kernel.tensors.map(
        (tensor) => given[tensor.name] ?? own(storedBytes(tensor)),
      );
      const scratch = kernel.scratch_bytes > 0 ? [own(kernel.scratch_bytes)] : [];
      const bound = new BoundProgram(program, [...tensors, ...scratch]);
      const named = kernel.tensors.map(({ name }, i) => [name, tensors[i] as GPUBuffer] as const);
      return new GpuKernel(program, Object.fromEntries(named), bound, owned);
    }, LIMIT_MS);
  }

  /** The reason why the device is gone; null while it lives. */
  get loss(): string | null {
    return this.#open.loss?.message ?? null;
  }

  /** Adds the kernel to a pass or to commands of the page's, which submits them itself. */
  encode(into: GPUComputePassEncoder | GPUCommandEncoder): void {
    if ("dispatchWorkgroups" in into) this.#bound.encode(into);
    else {
      const pass = into.beginComputePass();
      this.#bound.encode(pass);
      pass.end();
    }
  }

  /**
   * Copies entries to a tensor, in order with the runs that are submitted before and after. One of
   * f16 takes a Float32Array, which is rounded, or float16: a Uint16Array of bits, a Float16Array.
   */
  write(name: string, entries: GpuEntries): void {
    const { buffer, tensor } = this.#tensor(name);
    const suits = isViewOf(tensor.dtype, entries) || suitsFloat16(tensor, entries);
    if (entries.length !== elementsOf(tensor) || !suits) {
      const size = `${elementsOf(tensor)} entries of ${tensor.dtype}`;
      throw new KernelZooError("run", `${name} has ${size}, not ${entries.length} of these.`);
    }
    writeEntries(this.device, buffer, stored(tensor, entries));
  }

  /** Runs once on what the buffers hold then, without waiting for it. */
  submit(): void {
    const encoder = this.device.createCommandEncoder();
    this.encode(encoder);
    this.device.queue.submit([encoder.finish()]);
  }

  /** Runs once; in slices and to its end until a run is known to be short. */
  async run(): Promise<void> {
    if (this.#callMs <= WHOLE_MS) return this.submit();
    this.#callMs = await runInSlices(this.#open, this.#bound, now() + LIMIT_MS);
  }

  /** A tensor's entries, the output's unless named, once all runs submitted so far are done. */
  async read(): Promise<Float32Array<ArrayBuffer>>;
  async read(name: string): Promise<TensorView>;
  async read(name = this.#tensors.at(-1)?.name ?? ""): Promise<TensorView> {
    const { buffer, tensor } = this.#tensor(name);
    const bytes = storedBytes(tensor);
    const staging = this.#free(bytes).pop() ?? stagingBuffer(this.device, bytes);
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, padded(bytes));
    this.device.queue.submit([encoder.finish()]);
    await this.#open.settled(staging.mapAsync(GPUMapMode.READ), LIMIT_MS);
    const copied = staging.getMappedRange().slice(0, bytes);
    staging.unmap();
    this.#free(bytes).push(staging);
    return viewOfStored(tensor, copied);
  }

  /** Gives the kernel's own buffers back. */
  dispose(): void {
    this.#bound.dispose();
    const staging = [...this.#staging.values()].flat();
    for (const buffer of [...this.#owned, ...staging]) buffer.destroy();
  }

  /** Staging buffers that nobody reads, which cost more to make than to keep. */
  #free(bytes: number): GPUBuffer[] {
    const kept = this.#staging.get(bytes) ?? [];
    this.#staging.set(bytes, kept);
    return kept;
  }

  #tensor(name: string): { readonly buffer: GPUBuffer; readonly tensor: TensorWire } {
    const tensor = this.#tensors.find((known) => known.name === name);
    const buffer = this.buffers[name];
    if (tensor !== undefined && buffer !== undefined) return { buffer, tensor };
    const names = Object.keys(this.buffers).join(", ");
    throw new KernelZooError("run", `This kernel has no tensor ${name}; it has ${names}.`);
  }
}

/** A kernel that was loaded, and what verifies it. */
export interface GpuPart {
  readonly target: "webgpu";
  readonly kernel: GpuKernel;
  /**
   * Runs it, or another kernel of the same tensors, on seeded inputs in buffers of its own. Rejects
   * with KernelZooError.
   */
  seededOutput(other?: KernelWire): Promise<Float32Array>;
}

async function seededOutput(program: Program): Promise<Float32Array> {
  const kernel = await GpuKernel.make(program);
  try {
    for (const [i, tensor] of program.kernel.tensors.entries()) {
      const values = zerosOf(tensor);
      if (tensor.role === "input") fillSeeded(values, VERIFICATION_SEED, i, tensor);
      else values.fill(Number.NaN);
      kernel.write(tensor.name, values);
    }
    await kernel.run();
    return await kernel.read();
  } finally {
    kernel.dispose();
  }
}

/** Fetches, checks and compiles a kernel, and gives it its buffers. Rejects with KernelZooError. */
export async function loadPart(
  open: OpenDevice,
  { origin, deadline }: Pick<Source, "origin" | "deadline">,
  used: KernelWire,
  buffers: GpuBuffers | undefined,
): Promise<GpuPart> {
  const load = (wire: KernelWire) => loadProgram(open, origin, wire, deadline());
  const program = await load(used);
  return {
    target: "webgpu",
    kernel: await GpuKernel.make(program, buffers),
    seededOutput: async (other) => seededOutput(other === undefined ? program : await load(other)),
  };
}
