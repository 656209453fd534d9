/**
 * Weights as calls read them, packed, kept on the device in the Origin Private File System. A model
 * has two files: its weights, one after the other in the order of first use, and an index that says
 * what they are. The index is removed before weights are written and written after them, and each
 * piece is held to its hash when it is read: what is torn, changed or of another version is prepared
 * again, from the network.
 */
import type { ModelAnswer, PlanWire } from "./answer.js";
import { type Copy, copyBytes, type Placement } from "./placement.js";
import { hasDigest } from "./stream.js";
import type { Arrivals } from "./weights.js";

type Bytes = Uint8Array<ArrayBuffer>;

/** Names the form of the files and the meaning of packing; raised when either changes. */
const VERSION = 1;
const PIECE_BYTES = 1 << 20;
const FOLDER = "kernelzoo-models";
/** How long a piece waits while runs are wanted. */
const REST_MS = 50;

/** One weight in the file. `key` says of which bytes it was made, and by which pack kernels. */
interface Kept {
  readonly key: string;
  readonly bytes: number;
  /** Hashes of pieces of a mebibyte, the last one shorter. */
  readonly pieces: readonly string[];
}

interface Index {
  readonly version: number;
  readonly weights: readonly Kept[];
}

/** What TypeScript's DOM library describes in workers alone. */
interface SyncFile {
  read(into: Bytes, options: { at: number }): number;
  write(bytes: Bytes, options: { at: number }): number;
  truncate(bytes: number): void;
  flush(): void;
  close(): void;
}

type FileHandle = FileSystemFileHandle & { createSyncAccessHandle(): Promise<SyncFile> };

const hex = (bytes: ArrayBuffer): string =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");

const sha256 = async (bytes: Bytes): Promise<string> =>
  hex(await crypto.subtle.digest("SHA-256", bytes));

const text = new TextEncoder();

/** Where in memory the copies of each weight lie, from first to last. */
interface Place {
  readonly key: string;
  readonly address: number;
  readonly bytes: number;
}

/** Two weights of one key are the same bytes. */
function placesOf(plan: PlanWire, { weights }: Placement): readonly Place[] {
  return weights.map((copies, i) => {
    const weight = plan.weights[i] as PlanWire["weights"][number];
    const { offset, bytes } = weight.storage ?? weight;
    const end = offset + bytes;
    let at = 0;
    const chunks = plan.chunks.filter((chunk) => {
      const from = at;
      at += chunk.inflated ?? chunk.bytes;
      return from < end && at > offset;
    });
    const first = copies[0] as Copy;
    const last = copies.at(-1) as Copy;
    const packs = copies.map(({ pack }) => pack?.sha256 ?? "plain");
    const hashes = chunks.map((chunk) => chunk.sha256);
    return {
      key: JSON.stringify([offset, bytes, ...packs, ...hashes]),
      address: first.address,
      bytes: last.address + copyBytes(last.pack, weight.bytes) - first.address,
    };
  });
}

/** Opens a file and closes it whatever happens. */
async function opened<T>(
  folder: FileSystemDirectoryHandle,
  name: string,
  create: boolean,
  work: (file: SyncFile) => Promise<T>,
): Promise<T> {
  const handle = (await folder.getFileHandle(name, { create })) as FileHandle;
  const file = await handle.createSyncAccessHandle();
  try {
    return await work(file);
  } finally {
    file.close();
  }
}

/** Throws where the storage took less. */
function written(file: SyncFile, bytes: Bytes, at: number): void {
  if (file.write(bytes, { at }) < bytes.length) throw new Error("the storage is full");
}

/** Owns what is kept of one model. A browser that denies the storage keeps nothing. */
export class Keeper {
  readonly #plan: PlanWire;
  readonly #name: Promise<string>;
  #memory: WebAssembly.Memory | null = null;
  #places: readonly Place[] = [];
  #whole = false;

  constructor({ name, plan }: ModelAnswer) {
    this.#plan = plan;
    const model = text.encode(JSON.stringify([name, plan.dimensions]));
    this.#name = globalThis.crypto?.subtle === undefined ? Promise.resolve("") : sha256(model);
    this.#name.catch(() => undefined);
  }

  /** Puts weights into memory, from the first to the first that is not kept as it should be. */
  readonly restore = async (
    memory: WebAssembly.Memory,
    placement: Placement,
    arrivals: Arrivals,
    arrived: () => void,
  ): Promise<void> => {
    this.#memory = memory;
    this.#places = placesOf(this.#plan, placement);
    try {
      const { version, weights } = await this.#index();
      if (version !== VERSION) return;
      const [folder, name] = await this.#files();
      await opened(folder, `${name}.weights`, false, async (file) => {
        let at = 0;
        for (const [i, place] of this.#places.entries()) {
          const kept = weights[i];
          if (kept?.key !== place.key || kept.bytes !== place.bytes) return;
          if (!(await this.#read(file, at, place, kept.pieces))) return;
          at += place.bytes;
          arrivals.one();
          arrived();
        }
        this.#whole = true;
      });
    } catch {
      // Nothing is kept, or the browser denies it: the network has it.
    }
  };

  /** Keeps all weights, piece by piece while no run is wanted, unless they were kept. */
  readonly keep = async (busy: () => boolean): Promise<void> => {
    if (this.#whole) return;
    try {
      const [folder, name] = await this.#files();
      await remove(folder, `${name}.json`);
      try {
        const weights = await opened(folder, `${name}.weights`, true, async (file) => {
          file.truncate(0);
          const all: Kept[] = [];
          let at = 0;
          for (const place of this.#places) {
            all.push(await this.#write(file, at, place, busy));
            at += place.bytes;
          }
          file.flush();
          return all;
        });
        const index = { version: VERSION, weights } satisfies Index;
        await opened(folder, `${name}.json`, true, async (file) => {
          file.truncate(0);
          written(file, text.encode(JSON.stringify(index)), 0);
          file.flush();
        });
      } catch {
        // Half of a file cannot be used: both are removed.
        await remove(folder, `${name}.json`);
        await remove(folder, `${name}.weights`);
      }
    } catch {
      // The browser denies the storage.
    }
  };

  async #files(): Promise<readonly [FileSystemDirectoryHandle, string]> {
    const root = await navigator.storage.getDirectory();
    return [await root.getDirectoryHandle(FOLDER, { create: true }), await this.#name];
  }

  async #index(): Promise<Index> {
    const [folder, name] = await this.#files();
    const file = await (await folder.getFileHandle(`${name}.json`)).getFile();
    return JSON.parse(await file.text()) as Index;
  }

  /** False for bytes that are not those that were written. */
  async #read(
    file: SyncFile,
    from: number,
    { address, bytes }: Place,
    pieces: readonly string[],
  ): Promise<boolean> {
    const target = new Uint8Array((this.#memory as WebAssembly.Memory).buffer, address, bytes);
    for (let at = 0; at < bytes; at += PIECE_BYTES) {
      const piece = new Uint8Array(Math.min(PIECE_BYTES, bytes - at));
      if (file.read(piece, { at: from + at }) < piece.length) return false;
      if (!(await hasDigest(piece, pieces[at / PIECE_BYTES] ?? ""))) return false;
      target.set(piece, at);
    }
    return true;
  }

  async #write(
    file: SyncFile,
    from: number,
    { key, address, bytes }: Place,
    busy: () => boolean,
  ): Promise<Kept> {
    const source = new Uint8Array((this.#memory as WebAssembly.Memory).buffer, address, bytes);
    const pieces: string[] = [];
    for (let at = 0; at < bytes; at += PIECE_BYTES) {
      while (busy()) await new Promise((done) => setTimeout(done, REST_MS));
      // A copy, as neither hashes nor files are made of shared memory everywhere.
      const piece = new Uint8Array(source.subarray(at, at + PIECE_BYTES));
      written(file, piece, from + at);
      pieces.push(await sha256(piece));
    }
    return { key, bytes, pieces };
  }
}

const remove = (folder: FileSystemDirectoryHandle, name: string): Promise<void> =>
  folder.removeEntry(name).catch(() => undefined);
