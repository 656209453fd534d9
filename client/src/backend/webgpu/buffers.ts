/**
 * Buffers of tensors: a tensor of f16 is stored as float16 there, while a page sees it as float32.
 */
import { fromFloat16, toFloat16 } from "../../engine/float16.js";
import { elementsOf, type TensorView, tensorBytes, viewOf } from "../../engine/tensors.js";
import type { TensorWire } from "../../wire/types.js";
import type { OpenDevice } from "./device.js";

const FLOAT16_BYTES = Uint16Array.BYTES_PER_ELEMENT;

/** Entries that are float16 already: their bits, or a `Float16Array`. */
export interface Float16View extends ArrayBufferView<ArrayBuffer> {
  readonly length: number;
  readonly [Symbol.toStringTag]: "Uint16Array" | "Float16Array";
}

/** Entries that a buffer may be written from. */
export type GpuEntries = TensorView | Float16View;

const FLOAT16_VIEWS: readonly string[] = ["Uint16Array", "Float16Array"];

const isFloat16View = (entries: GpuEntries): entries is Float16View =>
  FLOAT16_VIEWS.includes(entries[Symbol.toStringTag]);

/** Bytes of a tensor as a buffer holds it, without padding. */
export const storedBytes = (tensor: Pick<TensorWire, "dtype" | "shape">): number =>
  tensor.dtype === "f16" ? FLOAT16_BYTES * elementsOf(tensor) : tensorBytes(tensor);

/** Returns whether the tensor is of f16 and the entries need no rounding. */
export const suitsFloat16 = (tensor: TensorWire, entries: GpuEntries): boolean =>
  tensor.dtype === "f16" && isFloat16View(entries);

/**
 * The entries as the buffer holds them: float32 is rounded to the nearest where the tensor is of
 * f16.
 */
export const stored = (tensor: TensorWire, entries: GpuEntries): GpuEntries =>
  tensor.dtype === "f16" && entries instanceof Float32Array ? toFloat16(entries) : entries;

/** The page's view of what a buffer of the tensor holds. */
export const viewOfStored = (
  tensor: Pick<TensorWire, "dtype" | "shape">,
  bytes: ArrayBuffer,
): TensorView =>
  tensor.dtype === "f16"
    ? fromFloat16(new Uint16Array(bytes))
    : viewOf(bytes, tensor.dtype, 0, elementsOf(tensor));

/** Every buffer is padded to a vec4, as bindings may be arrays of them. */
const PADDING_BYTES = 16;

export const padded = (bytes: number): number =>
  Math.max(Math.ceil(bytes / PADDING_BYTES), 1) * PADDING_BYTES;

/** A buffer of zeros that kernels read or write and that can be copied from and to. */
export function storageBuffer(device: GPUDevice, bytes: number): GPUBuffer {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  return device.createBuffer({ size: padded(bytes), usage });
}

/** Copies entries to a buffer from byte `at` on, in whole words as WebGPU wants them. */
export function writeEntries(
  device: GPUDevice,
  buffer: GPUBuffer,
  entries: GpuEntries | Uint8Array<ArrayBuffer>,
  at = 0,
): void {
  const { byteLength, byteOffset } = entries;
  if (byteLength % Uint32Array.BYTES_PER_ELEMENT === 0) {
    device.queue.writeBuffer(buffer, at, entries);
    return;
  }
  const words = new Uint8Array(padded(byteLength));
  words.set(new Uint8Array(entries.buffer, byteOffset, byteLength));
  device.queue.writeBuffer(buffer, at, words);
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

/** Reads `bytes` of `source` from `offset` on, once all that was submitted before has run. */
export async function readBuffer(
  open: OpenDevice,
  source: GPUBuffer,
  bytes: number,
  limitMs: number,
  offset = 0,
): Promise<ArrayBuffer> {
  const { device } = open;
  const staging = stagingBuffer(device, bytes);
  try {
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(source, offset, staging, 0, padded(bytes));
    device.queue.submit([encoder.finish()]);
    await open.settled(staging.mapAsync(GPUMapMode.READ), limitMs);
    return staging.getMappedRange().slice(0, bytes);
  } finally {
    staging.destroy();
  }
}
