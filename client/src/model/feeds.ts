/** From what a page gives a model to entries as they lie in its memory, and back. */
import { productOf } from "../engine/tensors.js";
import type { Stored } from "../executor/golden-tensors.js";
import type { PortDType, PortWire } from "../wire/model-answer.js";

/**
 * The entries of an output as a page reads them: int64, int32, uint32, bool and uint8, float32. Those
 * of a model that serves a range have their `shape`, as it depends on what was fed.
 */
export type TensorData = (
  | BigInt64Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | Uint32Array<ArrayBuffer>
  | Uint8Array<ArrayBuffer>
  | Float32Array<ArrayBuffer>
) & { readonly shape?: readonly number[] };

/** Row-major entries. */
export type Entries = ArrayLike<number> | ArrayLike<bigint> | ArrayLike<boolean>;

/** Entries, or entries with their shape, which is checked then. */
export type Feed =
  | Entries
  | {
      readonly data: Entries;
      readonly shape: readonly number[];
      /** @internal The entries are the first of an input that has a range. */
      readonly isFirst?: true;
    };

export type Feeds = Readonly<Record<string, Feed>>;

const RANGES: Readonly<Record<Exclude<PortDType, "float32">, readonly [number, number]>> = {
  // In memory they are 32-bit integers.
  int64: [-(2 ** 31), 2 ** 31 - 1],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  // Their bits are kept.
  uint32: [0, 2 ** 32 - 1],
  uint8: [0, 255],
  bool: [0, 1],
};

/** The faults of a feed, or of an option of a run, each with the values that its sentence names. */
export interface MisfitDetails {
  readonly option: readonly [];
  readonly unknown: readonly [known: readonly string[]];
  readonly missing: readonly [];
  readonly shape: readonly [given: readonly number[]];
  readonly length: readonly [given: number];
  readonly type: readonly [given: string];
  readonly range: readonly [least: number, most: number, i: number, entry: unknown];
}

/** The first fault of feeds that do not fit; the refusals have its sentence. */
export class Misfit<Kind extends keyof MisfitDetails = keyof MisfitDetails> extends Error {
  readonly kind: Kind;
  readonly port: Pick<PortWire, "name"> & Partial<PortWire>;
  readonly details: MisfitDetails[Kind];

  constructor(kind: Kind, port: Misfit["port"], ...details: MisfitDetails[Kind]) {
    super(`Input ${port.name} does not fit.`);
    this.kind = kind;
    this.port = port;
    this.details = details;
  }
}

/** A feed as it may be where no type is checked: a text has none of these, and is its own entries. */
export interface Shaped {
  readonly data?: Entries;
  readonly shape?: readonly number[];
  readonly isFirst?: true;
}

function entriesOf(port: PortWire, feed: Feed): Entries {
  const { data: entries = feed as Entries, shape = port.shape, isFirst }: Shaped = feed as Shaped;
  if (isFirst) return entries;
  if (shape.join() !== port.shape.join()) throw new Misfit("shape", port, shape);
  if (entries.length === productOf(port.shape)) return entries;
  throw new Misfit("length", port, entries.length);
}

/** A copy, in the memory of `into` where that is large enough. */
export function copied(entries: Float32Array | Int32Array, into?: Stored): Stored {
  const { length } = entries;
  if (into === undefined || into.buffer.byteLength < 4 * length) return entries.slice() as Stored;
  const kind = into.constructor as new (memory: ArrayBuffer, at: number, length: number) => Stored;
  const memory = into.length === length ? into : new kind(into.buffer, 0, length);
  memory.set(entries);
  return memory;
}

/** Fresh memory, which workers share where the browser lets them; they only read it. */
function fresh(length: number, shares: boolean): Stored {
  const bytes = 4 * length;
  const memory = shares ? new SharedArrayBuffer(bytes) : new ArrayBuffer(bytes);
  return new Float32Array(memory) as Stored;
}

function floats(port: PortWire, entries: Entries, shares: boolean, into?: Stored): Stored {
  if (entries instanceof Float32Array) {
    return copied(entries, into ?? fresh(productOf(port.shape), shares));
  }
  const given = typeof entries[0];
  if (entries.length > 0 && given !== "number") throw new Misfit("type", port, given);
  return Float32Array.from(entries as ArrayLike<number>);
}

/** The low words of numbers of 64 bits; null where one of them has more than 32. */
function lowWords(entries: BigInt64Array<ArrayBuffer>): Int32Array<ArrayBuffer> | null {
  // A BigInt for each would take 50 ns.
  const words = new Int32Array(entries.buffer, entries.byteOffset, 2 * entries.length);
  const low = new Int32Array(entries.length);
  let beyond = 0;
  for (let i = 0; i < low.length; i++) {
    const word = words[2 * i] as number;
    low[i] = word;
    beyond |= (words[2 * i + 1] as number) ^ (word >> 31);
  }
  return beyond === 0 ? low : null;
}

/** Integers as numbers of 64 bits. */
function widened(entries: Stored): BigInt64Array<ArrayBuffer> {
  const wide = new BigInt64Array(entries.length);
  const words = new Int32Array(wide.buffer);
  for (let i = 0; i < entries.length; i++) {
    const word = entries[i] as number;
    words[2 * i] = word;
    words[2 * i + 1] = word >> 31;
  }
  return wide;
}

function areWithin(entries: Int32Array, rows: PortWire["rows"]): boolean {
  if (rows === undefined) return true;
  const [least, most] = rows;
  for (const entry of entries) if (entry < least || entry > most) return false;
  return true;
}

/** Entries of an array whose numbers need no look, as memory has them. */
function words(dtype: PortDType, entries: Entries): Int32Array<ArrayBuffer> | null {
  if (dtype === "uint32") return entries instanceof Uint32Array ? new Int32Array(entries) : null;
  if (entries instanceof Int32Array) return new Int32Array(entries);
  return entries instanceof BigInt64Array ? lowWords(entries as BigInt64Array<ArrayBuffer>) : null;
}

function integers(
  port: PortWire & { readonly dtype: keyof typeof RANGES },
  entries: Entries,
): Int32Array<ArrayBuffer> {
  const { dtype, rows } = port;
  if (dtype.endsWith("32") || dtype === "int64") {
    // Others are read one by one, so that the first that is refused is named.
    const fast = words(dtype, entries);
    if (fast !== null && areWithin(fast, rows)) return fast;
  }
  const [least, most] = rows ?? RANGES[dtype];
  const stored = new Int32Array(entries.length);
  for (let i = 0; i < stored.length; i++) {
    const value = Number(entries[i]);
    if (!(Number.isInteger(value) && value >= least && value <= most)) {
      throw new Misfit("range", port, least, most, i, entries[i]);
    }
    stored[i] = value;
  }
  return stored;
}

/**
 * The entries of all inputs in their order, copied to the memory of `last` ones where they are given;
 * with `shares` into memory that workers may share.
 * Throws Misfit.
 */
export function storedFeeds(
  inputs: readonly PortWire[],
  feeds: Feeds,
  last: readonly Stored[] | null = null,
  shares = false,
): Stored[] {
  const names = inputs.map(({ name }) => name);
  const strange = Object.keys(feeds).find((name) => !names.includes(name));
  if (strange !== undefined) {
    throw new Misfit("unknown", { name: strange }, names);
  }
  return inputs.map((port, i) => {
    const feed = Object.hasOwn(feeds, port.name) ? feeds[port.name] : undefined;
    if (feed === undefined || feed === null) throw new Misfit("missing", port);
    const entries = entriesOf(port, feed);
    const { dtype } = port;
    return dtype === "float32"
      ? floats(port, entries, shares, last?.[i])
      : integers({ ...port, dtype }, entries);
  });
}

/** An output as a page reads it. */
export function tensorData(dtype: PortDType, entries: Stored): TensorData {
  switch (dtype) {
    case "int64":
      return widened(entries);
    case "uint32":
      return Uint32Array.from(entries);
    case "bool":
    case "uint8":
      return Uint8Array.from(entries);
    default:
      return entries;
  }
}
