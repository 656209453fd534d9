/**
 * The weights file, chunk by chunk as it arrives. Each chunk is held to its hash before anybody
 * reads it, and a connection that breaks goes on after the last chunk that was right.
 */
import type { Bytes } from "../engine/bytes.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { htmlSentence } from "../gateway/html.js";
import { after } from "../timing/clock.js";
import type { ChunkWire } from "../wire/model-answer.js";

/** Takes verified bytes of the file from `offset` on; they are overwritten afterwards. */
export type TakeBytes = (offset: number, bytes: Bytes) => void | Promise<void>;

/** Hears of what arrives. */
export interface Arrived {
  /** Bytes of the file that are verified. */
  readonly chunk: (bytes: number) => void;
  readonly piece?: () => void;
}

/** A chunk: where it begins in the file as it is fetched, and its begin and end once inflated. */
export interface PlacedChunk {
  readonly chunk: ChunkWire;
  readonly offset: number;
  readonly start: number;
  readonly end: number;
}

export function placedChunks(chunks: readonly ChunkWire[]): readonly PlacedChunk[] {
  let [offset, start] = [0, 0];
  return chunks.map((chunk) => {
    const placed = { chunk, offset, start, end: start + (chunk.inflated ?? chunk.bytes) };
    [offset, start] = [offset + chunk.bytes, placed.end];
    return placed;
  });
}

const NOTHING: Bytes = new Uint8Array();
const TRIES = 4;
const WAIT_MS = 500;

class EndedEarly extends TypeError {}

/**
 * Returns whether bytes have the digest. Pages on plain http cannot compute one, and take them for
 * right: anyone on the way may change what such pages are sent, the script that would compare
 * included.
 */
async function hasDigest(bytes: Bytes, sha256: string): Promise<boolean> {
  if (globalThis.crypto?.subtle === undefined) return true;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return digest.every((byte, i) => byte === Number.parseInt(sha256.slice(2 * i, 2 * i + 2), 16));
}

/** Fills a buffer from its beginning on, with at least a byte; the answer is empty at the end. */
type Fill = (into: Bytes) => Promise<Bytes>;

/**
 * Pieces are read to where they belong, where the browser can do that, and their buffer moves with
 * them. Memory of their own, 64 kB each, is only given back now and then.
 */
export function filling(body: ReadableStream<Bytes>): readonly [Fill, ReadableStreamGenericReader] {
  try {
    const reader = body.getReader({ mode: "byob" });
    const fill: Fill = async (into) => ((await reader.read(into)).value ?? NOTHING) as Bytes;
    return [fill, reader];
  } catch {
    const reader = body.getReader();
    let rest = NOTHING;
    const fill: Fill = async (into) => {
      if (rest.length === 0) rest = (await reader.read()).value ?? NOTHING;
      const part = rest.subarray(0, into.length);
      rest = rest.subarray(part.length);
      into.set(part);
      return into.subarray(0, part.length);
    };
    return [fill, reader];
  }
}

/**
 * Reads the next bytes into `buffer`, whose memory moves with them. Throws TypeError for a file
 * that ends early.
 */
export async function filled(
  fill: Fill,
  buffer: ArrayBuffer,
  bytes: number,
  heard?: Arrived["piece"],
): Promise<Bytes> {
  let held = buffer;
  for (let at = 0; at < bytes; ) {
    const part = await fill(new Uint8Array(held, at, bytes - at));
    if (part.length === 0) throw new EndedEarly("the file ended early");
    heard?.();
    held = part.buffer;
    at += part.length;
  }
  return new Uint8Array(held, 0, bytes);
}

/**
 * Yields chunks of the file from byte `from` on, as they arrive. A chunk's buffer is overwritten by
 * the one after the next. Throws KernelZooError (artifact) for a refusal or a page of HTML, TypeError
 * for a file that ends early.
 */
async function* received(
  url: URL | string,
  from: number,
  chunks: readonly ChunkWire[],
  heard: Arrived["piece"],
): AsyncGenerator<readonly [ChunkWire, Bytes], void> {
  const response = await fetch(url, from > 0 ? { headers: { Range: `bytes=${from}-` } } : {});
  if (!response.ok || response.body === null) {
    const message = `${url} answered ${response.status}: are the weights there?`;
    throw new KernelZooError("artifact", message);
  }
  const isPage = response.headers.get("Content-Type")?.startsWith("text/html") === true;
  const [fill, reader] = filling(response.body);
  const longest = Math.max(...chunks.map(({ bytes }) => bytes));
  const buffers: [ArrayBuffer, ArrayBuffer] = [new ArrayBuffer(longest), new ArrayBuffer(longest)];
  const next = async (which: 0 | 1, bytes: number): Promise<Bytes> => {
    try {
      const part = await filled(fill, buffers[which], bytes, heard);
      buffers[which] = part.buffer;
      return part;
    } catch (cause) {
      // A host may call any file HTML, so that one is told of only where it is too short.
      if (!(isPage && cause instanceof EndedEarly)) throw cause;
      throw new KernelZooError("artifact", htmlSentence(url), cause);
    }
  };
  let ended = false;
  try {
    // A host that knows no ranges starts from the beginning.
    for (let skip = response.status === 206 ? 0 : from; skip > 0; ) {
      skip -= (await next(0, Math.min(skip, longest))).length;
    }
    for (const [i, chunk] of chunks.entries()) {
      yield [chunk, await next((i % 2) as 0 | 1, chunk.bytes)];
    }
    // A browser takes a request for aborted whose end nobody has read, and may not keep its answer.
    ended = (await fill(new Uint8Array(1))).length === 0;
  } finally {
    if (!ended) reader.cancel().catch(() => undefined);
  }
}

export const changedFile = (url: URL | string): KernelZooError =>
  new KernelZooError(
    "artifact",
    `${url} does not have the SHA-256 that the model says. A proxy changed it or sent a page.`,
  );

/** Throws KernelZooError (artifact) for other bytes than those of `sha256`. */
export async function refuseChanged(
  bytes: Bytes,
  sha256: string,
  url: URL | string,
): Promise<void> {
  if (!(await hasDigest(bytes, sha256))) throw changedFile(url);
}

/**
 * Returns the files that an address of weights stands for, and the number of chunks that each but
 * the last one has. An address that ends in `#N` stands for files of N chunks each, whose names end
 * in `.0`, `.1` and so on.
 */
export function weightFiles(url: URL | string, chunks: number): readonly [string[], number] {
  const [path = "", several] = `${url}`.split("#");
  if (several === undefined) return [[path], Number.POSITIVE_INFINITY];
  const most = Number(several);
  return [Array.from({ length: Math.ceil(chunks / most) }, (_, i) => `${path}.${i}`), most];
}

/**
 * Reads the file from the chunk on that has byte `from`. It may lie in several files: see
 * `weightFiles`. Throws KernelZooError: network after four connections in a row that brought no
 * whole chunk, artifact (status or hash).
 */
export async function streamWeights(
  url: URL | string,
  chunks: readonly ChunkWire[],
  take: TakeBytes,
  arrived: Arrived,
  from = 0,
): Promise<void> {
  const [files, most] = weightFiles(url, chunks.length);
  // The chunks that are behind us, their bytes, and the bytes of those in files before this one.
  let [done, offset, start] = [0, 0, 0];
  const pass = ({ bytes }: ChunkWire): void => {
    [done, offset] = [done + 1, offset + bytes];
    if (done % most === 0) start = offset;
  };
  // Chunks that end at or before `from` are not wanted.
  for (const chunk of chunks) {
    if (offset + chunk.bytes > from) break;
    pass(chunk);
  }

  let attempt = 1;
  const accept = async (chunk: ChunkWire, bytes: Bytes): Promise<void> => {
    await refuseChanged(bytes, chunk.sha256, url);
    await take(offset, bytes);
    pass(chunk);
    attempt = 1;
    arrived.chunk(offset);
  };

  while (done < chunks.length) {
    // One chunk is verified while the next one arrives.
    let accepted: Promise<void> = Promise.resolve();
    try {
      const file = Math.floor(done / most);
      const inFile = chunks.slice(done, (file + 1) * most);
      const arriving = received(files[file] as string, offset - start, inFile, arrived.piece);
      for await (const [chunk, bytes] of arriving) {
        await accepted;
        accepted = accept(chunk, bytes);
        accepted.catch(() => undefined); // It is awaited below or in the next round.
      }
      await accepted;
    } catch (cause) {
      if (cause instanceof KernelZooError) throw cause;
      // What arrived whole before the connection broke counts.
      await accepted;
      if (attempt === TRIES) {
        const message = `The weights at ${url} do not arrive: ${sentence(cause)}. Try again.`;
        throw new KernelZooError("network", message, cause);
      }
      await after(WAIT_MS * attempt++);
    }
  }
}
