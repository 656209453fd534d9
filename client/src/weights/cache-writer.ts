/** Writes the weights of a model where the device keeps them, as they lie in memory or in their file. */
import type { GraphWriter } from "./cache-files.js";
import { type KeptWeight, PIECE_BYTES, type Place } from "./cached-model.js";
import { type Checksum, checksum } from "./checksum.js";

/** The bytes of a weight as it may be kept. */
export interface WeightSource {
  readonly plain: boolean;
  readonly bytes: number;
  /** Reads bytes from byte `from` on, which the next ones overwrite; null where that fails. */
  readonly read: (from: number, bytes: number) => Promise<Uint8Array | null>;
}

/**
 * Writes all weights, one piece after the other, each when `rest` lets it. Of the sources of a
 * weight it takes the first that can be read; the last one always can.
 */
export async function written(
  writer: GraphWriter,
  places: readonly Place[],
  sourcesOf: (place: Place, index: number) => readonly WeightSource[],
  rest: () => Promise<void>,
  sum: Checksum = checksum,
): Promise<readonly KeptWeight[]> {
  const weights: KeptWeight[] = [];
  let at = 0;
  try {
    for (const [i, place] of places.entries()) {
      for (const source of sourcesOf(place, i)) {
        const pieces = await writtenFrom(writer, at, source, rest, sum);
        if (pieces === null) continue;
        const { plain, bytes } = source;
        weights.push({ key: place.key, plain, at, bytes, pieces });
        at += bytes;
        break;
      }
    }
  } catch (thrown) {
    await writer.close().catch(() => undefined);
    throw thrown;
  }
  await writer.close();
  return weights;
}

/** Writes a weight and returns the checksums of its pieces; null where some could not be read. */
async function writtenFrom(
  writer: GraphWriter,
  at: number,
  { bytes, read }: WeightSource,
  rest: () => Promise<void>,
  sum: Checksum,
): Promise<string[] | null> {
  const pieces: string[] = [];
  for (let from = 0; from < bytes; from += PIECE_BYTES) {
    await rest();
    const piece = await read(from, Math.min(PIECE_BYTES, bytes - from));
    if (piece === null) return null;
    pieces.push(sum(piece));
    await writer.write(at + from, piece);
  }
  return pieces;
}
