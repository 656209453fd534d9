/**
 * The weights file, chunk by chunk as it arrives. Each chunk is held to its hash before anybody
 * reads it, and a connection that breaks goes on after the last chunk that was right.
 */
import { KernelZooError, sentence } from "../engine/error.js";
import type { ChunkWire } from "./answer.js";

type Bytes = Uint8Array<ArrayBuffer>;

/** Takes verified bytes of the file from `offset` on; they are overwritten afterwards. */
export type TakeBytes = (offset: number, bytes: Bytes) => void | Promise<void>;

/** Hears of what arrives. */
export interface Arrived {
  /** Bytes of the file that are verified. */
  readonly chunk: (bytes: number) => void;
  readonly piece: () => void;
}

/** What a browser's pipe holds; longer pieces do not come. */
const PIECE_BYTES = 1 << 19;
const TRIES = 4;
const WAIT_MS = 500;

/**
 * Whether bytes have the digest. Pages on plain http have none to compute it with; what they are
 * sent may be changed by anyone on the way, the script that would compare among it.
 */
export async function hasDigest(bytes: Bytes, sha256: string): Promise<boolean> {
  if (globalThis.crypto?.subtle === undefined) return true;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return digest.every((byte, i) => byte === Number.parseInt(sha256.slice(2 * i, 2 * i + 2), 16));
}

/**
 * Pieces are read into one buffer where the browser can do that: memory of their own, 64 kB each, is
 * only given back now and then.
 */
function readerOf(body: ReadableStream<Bytes>): ReadableStreamDefaultReader<Bytes> {
  try {
    return body.getReader({ mode: "byob" }) as unknown as ReadableStreamDefaultReader<Bytes>;
  } catch {
    return body.getReader();
  }
}

/**
 * The file from byte `from` on, as it arrives; each piece is overwritten by the next. Throws
 * KernelZooError (artifact) for a refusal.
 */
async function* received(url: URL, from: number): AsyncGenerator<Bytes, void> {
  const response = await fetch(url, from > 0 ? { headers: { Range: `bytes=${from}-` } } : {});
  if (!response.ok || response.body === null) {
    const message = `${url} answered ${response.status}: are the weights there?`;
    throw new KernelZooError("artifact", message);
  }
  // A host that knows no ranges starts from the beginning.
  let skip = response.status === 206 ? 0 : from;
  const reader = readerOf(response.body);
  // A reader of pieces that have memory of their own looks at no argument.
  const read = reader.read.bind(reader) as (into: Bytes) => ReturnType<typeof reader.read>;
  let spare = new ArrayBuffer(PIECE_BYTES);
  try {
    for (;;) {
      const { value, done } = await read(new Uint8Array(spare));
      if (done) return;
      spare = value.buffer;
      if (value.length > skip) yield value.subarray(skip);
      skip = Math.max(0, skip - value.length);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/**
 * Cuts what arrives into chunks. A chunk's buffer is overwritten by the one after the next. Throws
 * TypeError for a file that ends early.
 */
async function* cut(
  pieces: AsyncIterable<Bytes>,
  chunks: readonly ChunkWire[],
  buffers: readonly [Bytes, Bytes],
  heard: () => void,
): AsyncGenerator<readonly [ChunkWire, Bytes], void> {
  let [next, filled] = [0, 0];
  for await (const piece of pieces) {
    heard();
    for (let rest = piece; rest.length > 0 && next < chunks.length; ) {
      const chunk = chunks[next] as ChunkWire;
      const buffer = (buffers[next % 2] as Bytes).subarray(0, chunk.bytes);
      const part = rest.subarray(0, chunk.bytes - filled);
      buffer.set(part, filled);
      filled += part.length;
      rest = rest.subarray(part.length);
      if (filled < chunk.bytes) continue;
      [next, filled] = [next + 1, 0];
      yield [chunk, buffer];
    }
    if (next === chunks.length) return;
  }
  throw new TypeError("the file ended early");
}

/** Throws KernelZooError (artifact) for other bytes than those of `sha256`. */
export async function refuseChanged(bytes: Bytes, sha256: string, url: URL): Promise<void> {
  if (await hasDigest(bytes, sha256)) return;
  throw new KernelZooError(
    "artifact",
    `${url} does not have the SHA-256 that the model says. A proxy may have changed it.`,
  );
}

/** Reads the file from the chunk that has byte `from` on. Throws KernelZooError: network, artifact (status or hash). */
export async function streamWeights(
  url: URL,
  chunks: readonly ChunkWire[],
  take: TakeBytes,
  arrived: Arrived,
  from = 0,
): Promise<void> {
  // Chunks that end at or before `from` are not wanted.
  let [done, offset] = [0, 0];
  for (const { bytes } of chunks) {
    if (offset + bytes > from) break;
    [done, offset] = [done + 1, offset + bytes];
  }
  if (done === chunks.length) return;
  const longest = Math.max(...chunks.map(({ bytes }) => bytes));
  const buffers = [new Uint8Array(longest), new Uint8Array(longest)] as const;

  const accept = async (chunk: ChunkWire, bytes: Bytes): Promise<void> => {
    await refuseChanged(bytes, chunk.sha256, url);
    await take(offset, bytes);
    [done, offset] = [done + 1, offset + chunk.bytes];
    arrived.chunk(offset);
  };

  for (let attempt = 1; ; attempt++) {
    // One chunk is verified while the next one arrives.
    let accepted: Promise<void> = Promise.resolve();
    try {
      const rest = cut(received(url, offset), chunks.slice(done), buffers, arrived.piece);
      for await (const [chunk, bytes] of rest) {
        await accepted;
        accepted = accept(chunk, bytes);
        accepted.catch(() => undefined); // It is awaited below or in the next round.
      }
      return await accepted;
    } catch (cause) {
      if (cause instanceof KernelZooError) throw cause;
      // What arrived whole before the connection broke counts.
      await accepted;
      if (attempt === TRIES) {
        const message = `The weights at ${url} do not arrive: ${sentence(cause)}. Try again.`;
        throw new KernelZooError("network", message, cause);
      }
      await new Promise((resolve) => setTimeout(resolve, WAIT_MS * attempt));
    }
  }
}
