/** Finds the entries of inputs and outputs that are there in a run of a plan that serves a range. */
import { productOf, type TensorView } from "../engine/tensors.js";
import type { PlanWire, PortWire } from "../wire/model-answer.js";
import type { Stored } from "./golden-tensors.js";

export type Open = NonNullable<PortWire["open"]>;

/** Lists what is open of a shape, by place. */
export function openPlaces({
  open,
  also_open = [],
}: PortWire): ReadonlyMap<number, readonly Open[]> {
  const places = new Map<number, Open[]>();
  for (const one of open ? [open, ...also_open] : []) {
    places.set(one.place, [...(places.get(one.place) ?? []), one]);
  }
  return places;
}

/** The shape of what is there; `spare` says what a run leaves out of each dimension of the plan. */
export function shapeOfRun(port: PortWire, spare: readonly number[]): readonly number[] {
  const places = openPlaces(port);
  return port.shape.map((extent, i) =>
    (places.get(i) ?? []).reduce((n, { axis, step }) => n - step * (spare[axis] ?? 0), extent),
  );
}

/** Reads from feeds what a run leaves out of each dimension. */
export const spareOf = ({ axes = [] }: PlanWire, feeds: readonly Stored[]): readonly number[] =>
  axes.map(({ input }) => feeds[input]?.[0] as number);

/** Calls back for each row of `dims` in memory of a shape: where it begins there and among `dims`. */
export function eachRow(
  shape: readonly number[],
  dims: readonly number[],
  copy: (there: number, here: number, length: number) => void,
): void {
  const last = dims.findLastIndex((size, i) => size !== shape[i]);
  const length = productOf(dims.slice(Math.max(0, last)));
  const step = productOf(shape.slice(Math.max(0, last)));
  const rows = last > 0 ? productOf(dims.slice(0, last)) : 1;
  for (let row = 0; row < rows; row++) {
    let there = 0;
    for (let [place, rest, size] = [last - 1, row, step]; place >= 0; place--) {
      const extent = dims[place] as number;
      there += (rest % extent) * size;
      rest = Math.floor(rest / extent);
      size *= shape[place] as number;
    }
    copy(there, row * length, length);
  }
}

/** Writes a feed to the memory of an input: all of it, or what is there, with zeros behind that. */
export function writeFeed(
  port: PortWire,
  feed: Stored,
  memory: TensorView,
  spare: readonly number[],
): void {
  let written = 0;
  if (feed.length < memory.length) {
    eachRow(port.shape, shapeOfRun(port, spare), (there, here, length) => {
      memory.fill(0, written, there);
      memory.set(feed.subarray(here, here + length), there);
      written = there + length;
    });
    memory.fill(0, written);
  } else memory.set(feed);
}

/** Copies what is there of an output. */
export function takeOutput(port: PortWire, memory: TensorView, spare: readonly number[]): Stored {
  const dims = shapeOfRun(port, spare);
  const entries = new (memory.constructor as new (length: number) => Stored)(productOf(dims));
  eachRow(port.shape, dims, (there, here, length) =>
    entries.set(memory.subarray(there, there + length), here),
  );
  return entries;
}

/** A feed as it lies in the memory of an input. */
export function wholeFeed(port: PortWire, feed: Stored, spare: readonly number[]): Stored {
  const length = productOf(port.shape);
  if (feed.length === length) return feed;
  const memory = new (feed.constructor as new (length: number) => Stored)(length);
  writeFeed(port, feed, memory, spare);
  return memory;
}
