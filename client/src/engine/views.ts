import type { TensorWire } from "../wire/types.js";

type DType = TensorWire["dtype"];

/** Entries of a tensor, as its dtype has them. */
export type TensorView = Float32Array | Int32Array | Int8Array;

interface ViewType {
  readonly name: string;
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, start: number, length: number): TensorView;
}

const VIEWS: Readonly<Record<DType, ViewType>> = {
  f32: Float32Array,
  // Of the float16 of a GPU a page sees the value.
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
