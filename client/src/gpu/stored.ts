/** Tensors as buffers of a GPU hold them: those of f16 are float32 in a page, and halves there. */
import { floatsOf, halvesOf } from "../engine/half.js";
import { elementsOf, tensorBytes } from "../engine/plan.js";
import { type TensorView, viewOf } from "../engine/views.js";
import type { TensorWire } from "../wire/types.js";

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
