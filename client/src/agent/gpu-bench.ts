import { type OutputView, zerosOf } from "../engine/tensors.js";
import { fillSeeded } from "../engine/verification.js";
import { BoundProgram } from "../gpu/bound-program.js";
import {
  filledBuffer,
  readBuffer,
  storageBuffer,
  stored,
  storedBytes,
  viewOfStored,
  writeEntries,
} from "../gpu/buffers.js";
import type { OpenDevice } from "../gpu/device.js";
import type { Program } from "../gpu/program.js";
import type { KernelWire, Lease, TensorWire } from "../wire/types.js";

/** Allocation and upload of the largest tensors take a slow machine a second. */
const LIMIT_MS = 10_000;

/** A word that is NaN as float32 and as two float16. */
const NOT_A_NUMBER = 0xffff_ffff;

/** What is copied over output and scratch before a kernel is verified. */
const notANumbers = (device: GPUDevice, bytes: number): GPUBuffer =>
  filledBuffer(device, bytes, GPUBufferUsage.COPY_SRC, (words) => words.fill(NOT_A_NUMBER));

interface Buffers {
  readonly inputs: readonly GPUBuffer[];
  readonly output: GPUBuffer;
  readonly scratch: GPUBuffer;
  readonly poison: GPUBuffer;
}

/** The last tensor is the output. */
function allocate(device: GPUDevice, sizes: readonly number[], scratch: number): Buffers {
  const output = sizes.at(-1) ?? 0;
  return {
    inputs: sizes.slice(0, -1).map((bytes) => storageBuffer(device, bytes)),
    output: storageBuffer(device, output),
    scratch: storageBuffer(device, scratch),
    poison: notANumbers(device, Math.max(output, scratch)),
  };
}

/** The tensors of one lease on a device, and one scratch that its kernels use in turn. */
export class GpuBench {
  readonly open: OpenDevice;
  readonly #buffers: Buffers;
  readonly #made: TensorWire;

  private constructor(open: OpenDevice, buffers: Buffers, made: TensorWire) {
    this.open = open;
    this.#buffers = buffers;
    this.#made = made;
  }

  /** Uploads the lease's inputs. Throws KernelZooError: memory, or run when the device is lost. */
  static async make(
    open: OpenDevice,
    lease: Lease,
    kernels: readonly KernelWire[],
  ): Promise<GpuBench> {
    const { tensors } = lease.reference;
    const sizes = tensors.map(storedBytes);
    const scratch = Math.max(...kernels.map(({ scratch_bytes }) => scratch_bytes));
    const buffers = await open.scoped(() => allocate(open.device, sizes, scratch), LIMIT_MS);
    for (const [i, buffer] of buffers.inputs.entries()) {
      const tensor = tensors[i] as TensorWire;
      const values = zerosOf(tensor);
      fillSeeded(values, lease.seed, i, tensor);
      writeEntries(open.device, buffer, stored(tensor, values));
    }
    return new GpuBench(open, buffers, tensors.at(-1) as TensorWire);
  }

  /** Throws KernelZooError: validate where the device refuses the bindings. */
  bind(program: Program): Promise<BoundProgram> {
    const { inputs, output, scratch } = this.#buffers;
    const own = program.kernel.scratch_bytes > 0 ? [scratch] : [];
    return this.open.scoped(() => new BoundProgram(program, [...inputs, output, ...own]), LIMIT_MS);
  }

  /**
   * Fills output and scratch with NaN, so that what a kernel does not write fails the comparison.
   */
  clearOutput(): void {
    const encoder = this.open.device.createCommandEncoder();
    const { output, scratch, poison } = this.#buffers;
    for (const buffer of [output, scratch]) {
      encoder.copyBufferToBuffer(poison, 0, buffer, 0, Math.min(buffer.size, poison.size));
    }
    this.open.device.queue.submit([encoder.finish()]);
  }

  /** The entries of the output. */
  async output(limitMs: number): Promise<OutputView> {
    const { output } = this.#buffers;
    const bytes = await readBuffer(this.open, output, storedBytes(this.#made), limitMs);
    return viewOfStored(this.#made, bytes) as OutputView;
  }

  dispose(): void {
    const { inputs, output, scratch, poison } = this.#buffers;
    for (const buffer of [...inputs, output, scratch, poison]) buffer.destroy();
  }
}
