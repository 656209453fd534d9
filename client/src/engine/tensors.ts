/** Tensors in memory: their typed views, their sizes, and where those of one kernel lie. */
import type { KernelWire, TensorWire } from "../wire/types.js";

type DType = TensorWire["dtype"];

/** Entries of a tensor, as its dtype has them. */
export type TensorView = Float32Array | Int32Array | Int8Array;

/** Entries of an output: floats, or the integers of a program that computes integers. */
export type OutputView = Float32Array | Int32Array;

const NO_RESULT = -0x7fffffff;

/** Fills an output with what no kernel computes, so that entries that are not written are found. */
export function poison(output: OutputView): void {
  output.fill(output instanceof Int32Array ? NO_RESULT : Number.NaN);
}

interface ViewType {
  readonly name: string;
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, start: number, length: number): TensorView;
}

const VIEWS: Readonly<Record<DType, ViewType>> = {
  f32: Float32Array,
  // A page sees the float16 of a GPU by its value.
  f16: Float32Array,
  i32: Int32Array,
  i8: Int8Array,
};

export const bytesPerElement = (dtype: DType): number => VIEWS[dtype].BYTES_PER_ELEMENT;

export const isViewOf = (dtype: DType, view: { readonly [Symbol.toStringTag]: string }): boolean =>
  view[Symbol.toStringTag] === VIEWS[dtype].name;

/** `length` entries from address `start` on. */
export function viewOf(
  buffer: ArrayBufferLike,
  dtype: DType,
  start: number,
  length: number,
): TensorView {
  return new VIEWS[dtype](buffer, start, length);
}

/** A cache line; kernels ask for 16. */
export const ALIGNMENT = 64;

export const align = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** A tensor's place: `offset` in bytes from the start of the kernel's block. */
export interface Region {
  readonly tensor: TensorWire;
  readonly offset: number;
  readonly elements: number;
}

/** The places of a kernel's tensors and its scratch in one block of `totalBytes`. */
export interface MemoryPlan {
  readonly regions: readonly Region[];
  readonly scratchOffset: number;
  readonly totalBytes: number;
}

export const productOf = (shape: readonly number[]): number =>
  shape.reduce((product, extent) => product * extent, 1);

/** Number of entries of a dense tensor. */
export const elementsOf = ({ shape }: Pick<TensorWire, "shape">): number => productOf(shape);

/** Bytes of a tensor in the page's memory, without padding. */
export function tensorBytes(tensor: Pick<TensorWire, "dtype" | "shape">): number {
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
