/** Reads the weights that a device is to keep, in the worker that has the model's memory. */
import type { LoadOrder } from "../executor/messages.js";
import { addressOf, type WeightWire } from "../wire/model-answer.js";
import type { WeightSource } from "./cache-writer.js";
import { chunksOf, PIECE_BYTES, type Place } from "./cached-model.js";
import { filled, filling, refuseChanged } from "./stream.js";

/** Returns the sources of each weight; those of `plain` are kept plain where that can be. */
export function sourcesIn(
  { buffer }: Pick<WebAssembly.Memory, "buffer">,
  order: LoadOrder,
  plain: readonly boolean[],
): (place: Place, index: number) => readonly WeightSource[] {
  const at =
    (address: number): WeightSource["read"] =>
    async (from, bytes) =>
      new Uint8Array(buffer, address + from, bytes);
  // A host that sends no parts of the file would send the whole for each weight, and where the file
  // lies in several a weight may lie in two of them.
  let partless = order.answer.weights.url.includes("#");
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
 * Yields a weight as its author stored it, of its chunks alone, in pieces that the next ones
 * overwrite. Throws for what the network lacks; `refused` hears of a host that sends no parts.
 */
async function* storedPieces(
  { answer, origin }: LoadOrder,
  index: number,
  refused: () => void,
): AsyncGenerator<Uint8Array, void> {
  const { plan, weights } = answer;
  const { offset, bytes } = plan.weights[index] as WeightWire;
  const chunks = chunksOf(plan, offset, bytes);
  const first = chunks[0]?.offset ?? 0;
  const end = chunks.reduce((last, { chunk }) => last + chunk.bytes, first);
  const url = addressOf(weights.url, origin);
  const response = await fetch(url, { headers: { Range: `bytes=${first}-${end - 1}` } });
  const [fill, reader] = filling(response.body as ReadableStream<Uint8Array<ArrayBuffer>>);
  let ended = false;
  try {
    if (response.status !== 206) return refused();
    const piece = new Uint8Array(Math.min(PIECE_BYTES, bytes));
    let buffer = new ArrayBuffer(Math.max(...chunks.map(({ chunk }) => chunk.bytes)));
    let held = 0;
    for (const { chunk, offset: at } of chunks) {
      const whole = await filled(fill, buffer, chunk.bytes);
      await refuseChanged(whole, chunk.sha256, url);
      buffer = whole.buffer;
      const own = whole.subarray(Math.max(0, offset - at), offset + bytes - at);
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
    // As in `streamWeights`: what nobody has read to its end counts as aborted.
    ended = (await fill(new Uint8Array(1))).length === 0;
  } finally {
    if (!ended) reader.cancel().catch(() => undefined);
  }
}
