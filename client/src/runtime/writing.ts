/** Writes the weights of a model where the device keeps them, as they lie in memory or in their file. */
import { addressOf, type WeightWire } from "./answer.js";
import { checksum } from "./checksum.js";
import { chunksOf, type Kept, PIECE_BYTES, type Place } from "./graph.js";
import type { GraphWriter } from "./graph-files.js";
import type { LoadOrder } from "./messages.js";
import { filled, filling, refuseChanged } from "./stream.js";

/** The bytes of a weight as it may be kept. */
export interface WeightSource {
  readonly plain: boolean;
  readonly bytes: number;
  /** So many bytes from byte `from` on, which the next ones overwrite; null where they are not had. */
  readonly read: (from: number, bytes: number) => Promise<Uint8Array | null>;
}

/**
 * Writes all weights, one piece after the other, each when `rest` lets it: of its sources the first that
 * can be read, the last of which always can.
 */
export async function written(
  writer: GraphWriter,
  places: readonly Place[],
  sourcesOf: (place: Place, index: number) => readonly WeightSource[],
  rest: () => Promise<void>,
): Promise<readonly Kept[]> {
  const weights: Kept[] = [];
  let at = 0;
  try {
    for (const [i, place] of places.entries()) {
      for (const source of sourcesOf(place, i)) {
        const pieces = await writtenFrom(writer, at, source, rest);
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

/** The checksums of what was written; null where not all of it could be read. */
async function writtenFrom(
  writer: GraphWriter,
  at: number,
  { bytes, read }: WeightSource,
  rest: () => Promise<void>,
): Promise<string[] | null> {
  const pieces: string[] = [];
  for (let from = 0; from < bytes; from += PIECE_BYTES) {
    await rest();
    const piece = await read(from, Math.min(PIECE_BYTES, bytes - from));
    if (piece === null) return null;
    pieces.push(checksum(piece));
    await writer.write(at + from, piece);
  }
  return pieces;
}

/** Where a worker that has the model's memory reads weights, of which those of `plain` are kept plain. */
export function sourcesIn(
  { buffer }: Pick<WebAssembly.Memory, "buffer">,
  order: LoadOrder,
  plain: readonly boolean[],
): (place: Place, index: number) => readonly WeightSource[] {
  const at =
    (address: number): WeightSource["read"] =>
    async (from, bytes) =>
      new Uint8Array(buffer, address + from, bytes);
  // A host that sends no parts of the file would send the whole for each weight.
  let partless = false;
  const refused = (): void => {
    partless = true;
  };
  return ({ staged, address, bytes, plain: plainAt, plainBytes }, index) => {
    const packed = { plain: false, bytes, read: at(address) };
    if (!plain[index]) return [packed];
    if (!staged) return [{ plain: true, bytes: plainBytes, read: at(plainAt) }];
    if (partless) return [packed];
    const pieces = storedPieces(order, index, refused);
    const next = async () => (await pieces.next()).value ?? null;
    const read = () => next().catch(() => null);
    return [{ plain: true, bytes: plainBytes, read }, packed];
  };
}

/**
 * A weight as its author stored it, of its chunks alone, in pieces that the next ones overwrite. Throws
 * for what the network lacks; `refused` hears of a host that sends no parts.
 */
async function* storedPieces(
  { answer, origin }: LoadOrder,
  index: number,
  refused: () => void,
): AsyncGenerator<Uint8Array, void> {
  const { plan, weights } = answer;
  const { offset, bytes } = plan.weights[index] as WeightWire;
  const chunks = chunksOf(plan, offset, bytes);
  const first = chunks[0]?.at ?? 0;
  const end = chunks.reduce((last, chunk) => last + chunk.bytes, first);
  const url = addressOf(weights.url, origin);
  const response = await fetch(url, { headers: { Range: `bytes=${first}-${end - 1}` } });
  const [fill, reader] = filling(response.body as ReadableStream<Uint8Array<ArrayBuffer>>);
  try {
    if (response.status !== 206) return refused();
    const piece = new Uint8Array(Math.min(PIECE_BYTES, bytes));
    let buffer = new ArrayBuffer(Math.max(...chunks.map((chunk) => chunk.bytes)));
    let held = 0;
    for (const chunk of chunks) {
      const whole = await filled(fill, buffer, chunk.bytes);
      await refuseChanged(whole, chunk.sha256, url);
      buffer = whole.buffer;
      const own = whole.subarray(Math.max(0, offset - chunk.at), offset + bytes - chunk.at);
      for (let from = 0; from < own.length; ) {
        const part = own.subarray(from, from + piece.length - held);
        piece.set(part, held);
        from += part.length;
        held += part.length;
        if (held < piece.length) break;
        yield piece;
        held = 0;
      }
    }
    if (held > 0) yield piece.subarray(0, held);
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
