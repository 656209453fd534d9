import { tensorBytes, zerosOf } from "../engine/plan.js";
import { fillSeeded } from "../engine/seeded.js";
import { BoundProgram } from "../gpu/bound.js";
import { padded, storageBuffer, writeEntries } from "../gpu/buffers.js";
import type { OpenDevice } from "../gpu/device.js";
import type { Program } from "../gpu/program.js";
import { readBuffer } from "../gpu/read.js";
import type { KernelWire, Lease, TensorWire } from "../wire/types.js";

/** Allocation and upload of the largest tensors take a slow machine a second. */
const LIMIT_MS = 10_000;

/** What is copied over output and scratch before a kernel is verified. */
function notANumbers(device: GPUDevice, bytes: number): GPUBuffer {
  const usage = GPUBufferUsage.COPY_SRC;
  const buffer = device.createBuffer({ size: padded(bytes), usage, mappedAtCreation: true });
  new Float32Array(buffer.getMappedRange()).fill(Number.NaN);
  buffer.unmap();
  return buffer;
}

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
  readonly #outputBytes: number;

  private constructor(open: OpenDevice, buffers: Buffers, outputBytes: number) {
    this.open = open;
    this.#buffers = buffers;
    this.#outputBytes = outputBytes;
  }

  /** Uploads the lease's inputs. Throws KernelZooError: memory, or run when the device is lost. */
  static async make(
    open: OpenDevice,
    lease: Lease,
    kernels: readonly KernelWire[],
  ): Promise<GpuBench> {
    const { tensors } = lease.reference;
    const sizes = tensors.map(tensorBytes);
    const scratch = Math.max(...kernels.map(({ scratch_bytes }) => scratch_bytes));
    const buffers = await open.scoped(() => allocate(open.device, sizes, scratch), LIMIT_MS);
    for (const [i, buffer] of buffers.inputs.entries()) {
      const tensor = tensors[i] as TensorWire;
      const values = zerosOf(tensor);
      fillSeeded(values, lease.seed, i, tensor.limit);
      writeEntries(open.device, buffer, values);
    }
    return new GpuBench(open, buffers, sizes.at(-1) ?? 0);
  }

  /** Throws KernelZooError: validate where the device refuses the bindings. */
  bind(program: Program): Promise<BoundProgram> {
    const { inputs, output, scratch } = this.#buffers;
    const own = program.kernel.scratch_bytes > 0 ? [scratch] : [];
    return this.open.scoped(() => new BoundProgram(program, [...inputs, output, ...own]), LIMIT_MS);
  }

  /** Makes entries that a kernel does not write, and scratch that it does not, fail. */
  clearOutput(): void {
    const encoder = this.open.device.createCommandEncoder();
    const { output, scratch, poison } = this.#buffers;
    for (const buffer of [output, scratch]) {
      encoder.copyBufferToBuffer(poison, 0, buffer, 0, Math.min(buffer.size, poison.size));
    }
    this.open.device.queue.submit([encoder.finish()]);
  }

  async output(limitMs: number): Promise<Float32Array> {
    const { output } = this.#buffers;
    return new Float32Array(await readBuffer(this.open, output, this.#outputBytes, limitMs));
  }

  dispose(): void {
    const { inputs, output, scratch, poison } = this.#buffers;
    for (const buffer of [...inputs, output, scratch, poison]) buffer.destroy();
  }
}
