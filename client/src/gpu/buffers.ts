import type { GpuEntries } from "./stored.js";

/** Bindings may be of vec4: every buffer is padded to one. */
const PADDING_BYTES = 16;

export const padded = (bytes: number): number =>
  Math.max(Math.ceil(bytes / PADDING_BYTES), 1) * PADDING_BYTES;

/** A buffer that kernels read or write and that can be copied from and to; zeros. */
export function storageBuffer(device: GPUDevice, bytes: number): GPUBuffer {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  return device.createBuffer({ size: padded(bytes), usage });
}

/** Copies entries to the start of a buffer, in whole words as WebGPU wants them. */
export function writeEntries(device: GPUDevice, buffer: GPUBuffer, entries: GpuEntries): void {
  const { byteLength, byteOffset } = entries;
  if (byteLength % Uint32Array.BYTES_PER_ELEMENT === 0) {
    device.queue.writeBuffer(buffer, 0, entries);
    return;
  }
  const words = new Uint8Array(padded(byteLength));
  words.set(new Uint8Array(entries.buffer, byteOffset, byteLength));
  device.queue.writeBuffer(buffer, 0, words);
}

/** A buffer whose contents the page reads. */
export function stagingBuffer(device: GPUDevice, bytes: number): GPUBuffer {
  const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
  return device.createBuffer({ size: padded(bytes), usage });
}

/** A buffer for the given usage that `fill` has filled before anything uses it. */
export function filledBuffer(
  device: GPUDevice,
  bytes: number,
  usage: number,
  fill: (words: Uint32Array) => void,
): GPUBuffer {
  const buffer = device.createBuffer({ size: padded(bytes), usage, mappedAtCreation: true });
  fill(new Uint32Array(buffer.getMappedRange()));
  buffer.unmap();
  return buffer;
}
