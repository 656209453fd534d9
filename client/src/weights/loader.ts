/** Brings bytes of the weights file into memory, as weights that are packed as calls read them. */
import type { Placement, WeightCopy } from "../backend/wasm/memory.js";
import type { Main } from "../backend/wasm/program.js";
import { KernelZooError } from "../engine/error.js";
import { now } from "../timing/clock.js";
import type { PlanWire, WeightWire } from "../wire/model-answer.js";
import type { ArtifactWire } from "../wire/types.js";
import { type Arrivals, FETCHED } from "./arrivals.js";
import { type Arrived, streamWeights, type TakeBytes } from "./stream.js";

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

/** Makes the packed copies of a weight that lies plain at `plain`; answers the milliseconds that took. */
export function packCopies(copies: readonly WeightCopy[], plain: number, pack: Pack): number {
  const started = now();
  for (const copy of copies) if (copy.pack !== null) pack(copy.pack, plain, copy.address);
  return now() - started;
}

/** Takes a file that is given to it in runs of bytes, and says where in it weights begin. */
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
 * Returns a function that takes the file in order, and of it the weights that are to be fetched.
 * When the last byte of one is there, its packed copies are made, unless it is held in its own
 * place.
 */
export function weightSink(
  { buffer }: Pick<WebAssembly.Memory, "buffer">,
  weights: readonly WeightWire[],
  { weights: places, plain: plains, rooms }: Pick<Placement, "weights" | "plain" | "rooms">,
  pack: Pack,
  arrivals: Arrivals,
): TakeBytes {
  const target = new Uint8Array(buffer);
  const isFetched = weights.map((_, i) => arrivals.state(i) === FETCHED);
  let next = 0;
  return (offset, bytes) => {
    const end = offset + bytes.length;
    for (; next < weights.length; next++) {
      const weight = weights[next] as WeightWire;
      const plain = plains[next] as number;
      const from = Math.max(offset, weight.offset);
      const to = Math.min(end, weight.offset + weight.bytes);
      if (isFetched[next] && from < to) {
        target.set(bytes.subarray(from - offset, to - offset), plain + from - weight.offset);
      }
      if (weight.offset + weight.bytes > end) return;
      if (!isFetched[next]) continue;
      const copies = rooms[next] === undefined ? places[next] : undefined;
      arrivals.put(next, copies && packCopies(copies, plain, pack));
    }
  };
}

/** The file that weights come from. */
export interface WeightsFile {
  readonly plan: PlanWire;
  readonly url: string;
}

/** The file of weights, and the memory where they are to lie. */
export interface Wanted extends WeightsFile {
  readonly memory: Pick<WebAssembly.Memory, "buffer">;
  readonly placement: Pick<Placement, "weights" | "plain" | "rooms" | "packScratch">;
}

/** Reads plain files unless told how to read others. */
export type Reading = typeof plainFile;

/** Fetches the weights that are to be fetched. Rejects with KernelZooError: network, artifact. */
export async function fetchWeights(
  file: Wanted,
  mains: Promise<ReadonlyMap<string, Main>>,
  arrivals: Arrivals,
  arrived: Arrived,
  stored?: Reading,
): Promise<void> {
  const { plan } = file;
  const first = plan.weights.findIndex((_, i) => arrivals.state(i) === FETCHED);
  if (first < 0) return;
  await receiveWeights(file, sinkOf(file, mains, arrivals), arrived, stored, first);
}

/** Returns the sink of weights that are to be fetched, once there are kernels that pack them. */
export const sinkOf = (
  { memory, placement, plan }: Wanted,
  mains: Promise<ReadonlyMap<string, Main>>,
  arrivals: Arrivals,
): Promise<TakeBytes> =>
  mains.then((all) =>
    weightSink(memory, plan.weights, placement, packer(placement, all), arrivals),
  );

/** Fetches weights from the `first` on. Rejects with KernelZooError: network, artifact. */
export async function receiveWeights(
  { plan, url }: WeightsFile,
  sink: Promise<TakeBytes>,
  arrived: Arrived,
  stored?: Reading,
  first = 0,
): Promise<void> {
  const reading = plan.needs.includes("stored") ? stored : plainFile;
  if (!reading) throw new KernelZooError("artifact", "This worker reads plain weights.");
  const { take, from } = reading(plan, async (offset, bytes) => (await sink)(offset, bytes));
  await streamWeights(url, plan.chunks, take, arrived, from(first));
}
