import { BoundProgram } from "../../backend/webgpu/binding.js";
import {
  filledBuffer,
  readBuffer,
  storageBuffer,
  stored,
  storedBytes,
  viewOfStored,
  writeEntries,
} from "../../backend/webgpu/buffers.js";
import type { OpenDevice } from "../../backend/webgpu/device.js";
import type { Program } from "../../backend/webgpu/program.js";
import { fillSeeded } from "../../engine/seeded.js";
import { type OutputView, zerosOf } from "../../engine/tensors.js";
import type { KernelWire, TensorWire } from "../../wire/types.js";
import type { Subject } from "../measurement.js";

/** Allocation and upload of the largest tensors take a slow machine a second. */
const LIMIT_MS = 10_000;

/** A word that is NaN as float32 and as two float16. */
const NOT_A_NUMBER = 0xffff_ffff;

/** Makes the buffer of NaN that is copied over output and scratch before a kernel is verified. */
const notANumbers = (device: GPUDevice, bytes: number): GPUBuffer =>
  filledBuffer(device, bytes, GPUBufferUsage.COPY_SRC, (words) => words.fill(NOT_A_NUMBER));

/** A tensor that kernels read and write, and what it holds before each kernel that is verified. */
interface State {
  readonly tensor: TensorWire;
  readonly buffer: GPUBuffer;
  readonly before: GPUBuffer;
}

interface Buffers {
  readonly inputs: readonly GPUBuffer[];
  readonly states: readonly State[];
  readonly output: GPUBuffer;
  readonly scratch: GPUBuffer;
  readonly poison: GPUBuffer;
}

/** The last tensor is the output. */
function allocate(device: GPUDevice, tensors: readonly TensorWire[], scratch: number): Buffers {
  const sizes = tensors.map(storedBytes);
  const output = sizes.at(-1) ?? 0;
  const inputs = sizes.slice(0, -1).map((bytes) => storageBuffer(device, bytes));
  return {
    inputs,
    states: inputs.flatMap((buffer, i) => {
      const tensor = tensors[i] as TensorWire;
      return tensor.role === "state"
        ? [{ tensor, buffer, before: storageBuffer(device, buffer.size) }]
        : [];
    }),
    output: storageBuffer(device, output),
    scratch: storageBuffer(device, scratch),
    poison: notANumbers(device, Math.max(output, scratch)),
  };
}

/** The tensors of one lease on a device, and one scratch that its kernels use in turn. */
export class GpuBench {
  readonly open: OpenDevice;
  readonly #buffers: Buffers;
  readonly #written: TensorWire;

  private constructor(open: OpenDevice, buffers: Buffers, written: TensorWire) {
    this.open = open;
    this.#buffers = buffers;
    this.#written = written;
  }

  /** Uploads the lease's inputs. Throws KernelZooError: memory, or run when the device is lost. */
  static async make(
    open: OpenDevice,
    subject: Subject,
    kernels: readonly KernelWire[],
  ): Promise<GpuBench> {
    const { tensors } = subject.reference;
    const scratch = Math.max(...kernels.map(({ scratch_bytes }) => scratch_bytes));
    const buffers = await open.scoped(() => allocate(open.device, tensors, scratch), LIMIT_MS);
    for (const [i, buffer] of buffers.inputs.entries()) {
      const tensor = tensors[i] as TensorWire;
      const values = zerosOf(tensor);
      fillSeeded(values, subject.seed, i, tensor);
      const entries = stored(tensor, values);
      writeEntries(open.device, buffer, entries);
      const state = buffers.states.find((one) => one.buffer === buffer);
      if (state !== undefined) writeEntries(open.device, state.before, entries);
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
   * Fills output and scratch with NaN, so that what a kernel does not write fails the comparison,
   * and states with what they held at first.
   */
  clearOutput(): void {
    const encoder = this.open.device.createCommandEncoder();
    const { output, scratch, poison, states } = this.#buffers;
    for (const buffer of [output, scratch]) {
      encoder.copyBufferToBuffer(poison, 0, buffer, 0, Math.min(buffer.size, poison.size));
    }
    for (const { buffer, before } of states) {
      encoder.copyBufferToBuffer(before, 0, buffer, 0, buffer.size);
    }
    this.open.device.queue.submit([encoder.finish()]);
  }

  /** The entries of the output. */
  async output(limitMs: number): Promise<OutputView> {
    const { output } = this.#buffers;
    const bytes = await readBuffer(this.open, output, storedBytes(this.#written), limitMs);
    return viewOfStored(this.#written, bytes) as OutputView;
  }

  /** The entries of the states, in their order. */
  async states(limitMs: number): Promise<readonly OutputView[]> {
    const states: OutputView[] = [];
    for (const { tensor, buffer } of this.#buffers.states) {
      const bytes = await readBuffer(this.open, buffer, storedBytes(tensor), limitMs);
      states.push(viewOfStored(tensor, bytes) as OutputView);
    }
    return states;
  }

  dispose(): void {
    const { inputs, states, output, scratch, poison } = this.#buffers;
    const copies = states.map(({ before }) => before);
    for (const buffer of [...inputs, ...copies, output, scratch, poison]) buffer.destroy();
  }
}
