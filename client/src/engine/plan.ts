import type { KernelWire, TensorWire } from "../wire/types.js";
import { align } from "./arena.js";
import { bytesPerElement, type TensorView, viewOf } from "./views.js";

/** A tensor's place: `offset` in bytes from the start of the kernel's block. */
export interface Region {
  readonly tensor: TensorWire;
  readonly offset: number;
  readonly elements: number;
}

/** Where a kernel's tensors and its scratch lie in one block of `totalBytes`. */
export interface MemoryPlan {
  readonly regions: readonly Region[];
  readonly scratchOffset: number;
  readonly totalBytes: number;
}

/** Number of entries of a dense tensor. */
export function elementsOf(tensor: TensorWire): number {
  return tensor.shape.reduce((product, extent) => product * extent, 1);
}

/** Without padding. */
export function tensorBytes(tensor: TensorWire): number {
  return elementsOf(tensor) * bytesPerElement(tensor.dtype);
}

/** Room for its entries, outside of any kernel's memory. */
export function zerosOf(tensor: TensorWire): TensorView {
  const buffer = new ArrayBuffer(tensorBytes(tensor));
  return viewOf(buffer, tensor.dtype, 0, elementsOf(tensor));
}

/** Tensors in order, then scratch, each aligned to 64 bytes. */
export function planMemory(kernel: Pick<KernelWire, "tensors" | "scratch_bytes">): MemoryPlan {
  let offset = 0;
  const regions = kernel.tensors.map((tensor): Region => {
    const region = { tensor, offset, elements: elementsOf(tensor) };
    offset += align(tensorBytes(tensor));
    return region;
  });
  return { regions, scratchOffset: offset, totalBytes: offset + align(kernel.scratch_bytes) };
}
