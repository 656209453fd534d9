/** Keeps the keys and values of several texts on the GPU beside those of a decoder. */
import { storageBuffer } from "../../backend/webgpu/buffers.js";

export class BeamSlots {
  readonly #states: readonly GPUBuffer[];
  readonly #slots: readonly (readonly GPUBuffer[])[];

  constructor(device: GPUDevice, states: readonly GPUBuffer[], count: number) {
    this.#states = states;
    this.#slots = Array.from({ length: count }, () =>
      states.map(({ size }) => storageBuffer(device, size)),
    );
  }

  /** Keeps those of the decoder in a slot. */
  save(encoding: GPUCommandEncoder, slot: number): void {
    this.#copied(encoding, this.#states, this.#slots[slot] ?? []);
  }

  /** Gives the decoder those of a slot. */
  load(encoding: GPUCommandEncoder, slot: number): void {
    this.#copied(encoding, this.#slots[slot] ?? [], this.#states);
  }

  copy(encoding: GPUCommandEncoder, from: number, to: number): void {
    this.#copied(encoding, this.#slots[from] ?? [], this.#slots[to] ?? []);
  }

  dispose(): void {
    for (const buffer of this.#slots.flat()) buffer.destroy();
  }

  #copied(
    encoding: GPUCommandEncoder,
    sources: readonly GPUBuffer[],
    targets: readonly GPUBuffer[],
  ): void {
    for (const [i, source] of sources.entries()) {
      encoding.copyBufferToBuffer(source, 0, targets[i] as GPUBuffer, 0, source.size);
    }
  }
}
