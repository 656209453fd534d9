/** Buffers of tensors: a tensor of f16 is stored as float16 there, while a page sees it as float32. */
import { floatsOf, halvesOf } from "../engine/half.js";
import { elementsOf, type TensorView, tensorBytes, viewOf } from "../engine/tensors.js";
import type { TensorWire } from "../wire/types.js";
import type { OpenDevice } from "./device.js";

const HALF_BYTES = Uint16Array.BYTES_PER_ELEMENT;

/** Halves as a page may have them already: their bits, or a `Float16Array`. */
export interface HalfView extends ArrayBufferView<ArrayBuffer> {
  readonly length: number;
  readonly [Symbol.toStringTag]: "Uint16Array" | "Float16Array";
}

/** What a buffer may be written from. */
export type GpuEntries = TensorView | HalfView;

const HALVES: readonly string[] = ["Uint16Array", "Float16Array"];

const areHalves = (entries: GpuEntries): entries is HalfView =>
  HALVES.includes(entries[Symbol.toStringTag]);

/** Without padding. */
export const storedBytes = (tensor: TensorWire): number =>
  tensor.dtype === "f16" ? HALF_BYTES * elementsOf(tensor) : tensorBytes(tensor);

/** Whether a tensor of f16 may be written from it as it is. */
export const suitsHalf = (tensor: TensorWire, entries: GpuEntries): boolean =>
  tensor.dtype === "f16" && areHalves(entries);

/** Entries as the buffer holds them; of a tensor of f16, float32 is rounded to the nearest. */
export const stored = (tensor: TensorWire, entries: GpuEntries): GpuEntries =>
  tensor.dtype === "f16" && entries instanceof Float32Array ? halvesOf(entries) : entries;

/** What a buffer of a tensor holds, as a page sees it. */
export const viewOfStored = (tensor: TensorWire, bytes: ArrayBuffer): TensorView =>
  tensor.dtype === "f16"
    ? floatsOf(new Uint16Array(bytes))
    : viewOf(bytes, tensor.dtype, 0, elementsOf(tensor));

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

/** The first `bytes` of `source`, once all that was submitted before has run. */
export async function readBuffer(
  open: OpenDevice,
  source: GPUBuffer,
  bytes: number,
  limitMs: number,
): Promise<ArrayBuffer> {
  const { device } = open;
  const staging = stagingBuffer(device, bytes);
  try {
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(source, 0, staging, 0, padded(bytes));
    device.queue.submit([encoder.finish()]);
    await open.settled(staging.mapAsync(GPUMapMode.READ), limitMs);
    return staging.getMappedRange().slice(0, bytes);
  } finally {
    staging.destroy();
  }
}
