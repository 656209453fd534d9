/** Weights of a graph that this device keeps: which of them a model can use, and reading them. */

import type { Bytes } from "../engine/bytes.js";
import { KernelZooError } from "../engine/error.js";
import { type FilesKind, type GraphReader, graphFiles } from "./cache-files.js";
import {
  type GraphOrder,
  type KeptWeight,
  PIECE_BYTES,
  type Place,
  type Planned,
} from "./cached-model.js";
import { type Checksum, checksum } from "./checksum.js";
import { checksumIn } from "./vector-checksum.js";

/** Pieces that are written and read to learn how long reading takes, of so many pages of memory. */
const PROBED_PIECES = 4;
const PROBED_PAGES = 4;
/** No graph has such a name. */
const PROBE = "probe";

/** The place in which the weights of a model are kept. */
export interface KeptName {
  readonly files: FilesKind;
  readonly name: string;
}

/** The kept weights of a model: null for one that is not kept as its kernels read it now. */
export interface KeptModel extends KeptName, Planned {
  readonly weights: readonly (KeptWeight | null)[];
}

export function keptModel(graph: GraphOrder, places: readonly Place[]): KeptModel {
  const { files, name, costs, queues } = graph;
  const weights = places.map(({ key, bytes, plainBytes }, i) => {
    const kept = graph.weights[i];
    const whole = kept?.key === key && kept.bytes === (kept.plain ? plainBytes : bytes);
    return whole ? kept : null;
  });
  return { files, name, weights, costs, queues };
}

/** Returns whether several threads may read a file, each with a reader of its own. */
export const severalRead = (): boolean =>
  "mode" in
  ((globalThis as { FileSystemSyncAccessHandle?: { prototype: object } }).FileSystemSyncAccessHandle
    ?.prototype ?? {});

/** Takes pieces of a weight, each with its place, once they are known to be what was written. */
export interface PieceTarget {
  set(piece: Bytes, at: number): void;
}

/** Reads weights. */
export class KeptReader {
  readonly #file: GraphReader;

  private constructor(file: GraphReader) {
    this.#file = file;
  }

  /** Opens the file of a graph; null where there is none, or the browser denies it. */
  static async open({ files, name }: KeptName): Promise<KeptReader | null> {
    try {
      return new KeptReader(await (await graphFiles(files)).reader(name));
    } catch {
      return null;
    }
  }

  /**
   * Reads a weight, one piece whenever `rest` lets it, straight to where calls read it if `target`
   * is memory; false for bytes that are not those that were written, by `sum`.
   */
  async read(
    { at, bytes, pieces }: KeptWeight,
    target: Uint8Array | PieceTarget,
    sum: Checksum = checksum,
    rest?: () => Promise<void>,
  ): Promise<boolean> {
    for (let done = 0; done < bytes; done += PIECE_BYTES) {
      await rest?.();
      const size = Math.min(PIECE_BYTES, bytes - done);
      const inPlace = target instanceof Uint8Array;
      const piece = inPlace ? target.subarray(done, done + size) : new Uint8Array(size);
      if (!(await this.#file.read(at + done, piece).catch(() => false))) return false;
      if (sum(piece) !== pieces[done / PIECE_BYTES]) return false;
      if (!inPlace) target.set(piece as Bytes, done);
    }
    return true;
  }

  close(): void {
    this.#file.close();
  }
}

export const unreadable = (name: string): KernelZooError =>
  new KernelZooError(
    "storage",
    `The kept weights of ${name} cannot be read: they were changed or removed. Open the model anew.`,
  );

/** Removes a graph that was changed, so that no other page opens it. */
export async function forget({ files, name }: KeptName): Promise<void> {
  try {
    await (await graphFiles(files)).remove(name);
  } catch {
    // Whoever opens it next finds that it was changed.
  }
}

/**
 * Measures the milliseconds that reading a mebibyte and its checksum take here, undisturbed.
 * Rejects without room.
 */
export async function readMs(kind: FilesKind, memory: WebAssembly.Memory): Promise<number> {
  const files = await graphFiles(kind);
  // This memory is its own, as reading must not change what a run computes meanwhile.
  const [initial, shared] = [PROBED_PAGES, true];
  const own = new WebAssembly.Memory({ initial, maximum: initial, shared });
  const piece = new Uint8Array(own.buffer);
  piece.set(new Uint8Array(memory.buffer).subarray(0, piece.length));
  const sum = checksumIn(own);
  try {
    const writer = await files.writer(PROBE);
    try {
      for (let i = 0; i < PROBED_PIECES; i++) await writer.write(i * piece.length, piece);
    } finally {
      // A file that is open is not removed.
      await writer.close();
    }
    const reader = await files.reader(PROBE);
    let leastMs = Number.POSITIVE_INFINITY;
    try {
      for (let i = 0; i < PROBED_PIECES; i++) {
        const started = performance.now();
        await reader.read(i * piece.length, piece);
        sum(piece);
        leastMs = Math.min(leastMs, performance.now() - started);
      }
    } finally {
      reader.close();
    }
    return (leastMs * PIECE_BYTES) / piece.length;
  } finally {
    await files.remove(PROBE);
  }
}
