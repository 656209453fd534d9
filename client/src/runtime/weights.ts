/** From bytes of the weights file to weights in memory, packed as calls read them. */
import type { ArtifactWire } from "../wire/types.js";
import type { PlanWire, WeightWire } from "./answer.js";
import type { Main } from "./kernels.js";
import type { Copy, Placement } from "./placement.js";
import type { TakeBytes } from "./stream.js";

/** Whoever waits for weights hears of an abort this late. */
const PATIENCE_MS = 4;

/** Slices of the first run of a pack kernel, so that optimised code takes over within it. */
const PACK_SLICES = 32;

/** Runs a pack kernel from the plain copy at one address to the packed one at another. */
export type Pack = (pack: ArtifactWire, from: number, to: number) => void;

/** Runs pack kernels, always in slices: most run few times. */
export function packer(
  { packScratch }: Pick<Placement, "packScratch">,
  mains: ReadonlyMap<string, Main>,
): Pack {
  return (pack, from, to) => {
    const main = mains.get(pack.sha256) as Main;
    const { range_extent: extent, scratch_bytes } = pack;
    const words = scratch_bytes > 0 ? [from, to, packScratch] : [from, to];
    const step = Math.max(1, Math.ceil(extent / PACK_SLICES));
    for (let lo = 0; lo < extent; lo += step) main(...words, lo, Math.min(lo + step, extent));
  };
}

/** Weights that are in memory, in the order of the file. */
export class Arrivals {
  #count = 0;
  #hear = (): void => undefined;

  get count(): number {
    return this.#count;
  }

  one(): void {
    this.#count += 1;
    this.#hear();
  }

  /** Resolves with the next weight, and after milliseconds without one. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#hear = resolve;
      setTimeout(resolve, PATIENCE_MS);
    });
  }
}

/** A file as runs of `take` are given it, and where in it weights begin. */
export interface FileReading {
  /** Takes whole chunks. */
  readonly take: TakeBytes;
  /** The byte of the file from which on weight `index` and those behind it are read. */
  readonly from: (index: number) => number;
}

export const bytesOfFile = ({ chunks }: PlanWire): number =>
  chunks.reduce((sum, { bytes }) => sum + bytes, 0);

export const plainFile = ({ weights }: PlanWire, take: TakeBytes): FileReading => ({
  take,
  from: (index) => weights[index]?.offset ?? Infinity,
});

/**
 * Takes the file in order. A weight goes to its plain copy, or to the staging area if no call reads
 * it plain; when its last byte is there, its packed copies are made.
 */
export function weightSink(
  memory: WebAssembly.Memory,
  weights: readonly WeightWire[],
  { weights: places, staging }: Pick<Placement, "weights" | "staging">,
  pack: Pack,
  arrivals: Arrivals,
): TakeBytes {
  const target = new Uint8Array(memory.buffer);
  return (offset, bytes) => {
    const end = offset + bytes.length;
    for (let next = arrivals.count; next < weights.length; next++) {
      const weight = weights[next] as WeightWire;
      const copies = places[next] as readonly Copy[];
      const plain = copies[0]?.pack === null ? copies[0].address : staging;
      const from = Math.max(offset, weight.offset);
      const to = Math.min(end, weight.offset + weight.bytes);
      if (from < to) {
        target.set(bytes.subarray(from - offset, to - offset), plain + from - weight.offset);
      }
      if (weight.offset + weight.bytes > end) return;
      for (const copy of copies) if (copy.pack !== null) pack(copy.pack, plain, copy.address);
      arrivals.one();
    }
  };
}
