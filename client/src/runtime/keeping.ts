/**
 * Weights that are kept on the device in the Origin Private File System: as calls read them, packed, or
 * plain where this device packs a weight sooner than it reads the larger packed one. A model has two
 * files: its weights, one after the other in the order of first use, and an index that says what they
 * are, what preparing and running them took here, and which thread is to prepare which. The index is
 * removed before weights are written and written after them, and each piece is held to its hash when it
 * is read: what is torn, changed or of another version is prepared again, from the network.
 */
import { addressOf, type ModelAnswer, type PlanWire } from "./answer.js";
import { type Copy, copyBytes, type Placement } from "./placement.js";
import { hasDigest } from "./stream.js";
import { plainPlace } from "./weights.js";

type Bytes = Uint8Array<ArrayBuffer>;

/** Names the form of the files and the meaning of packing; raised when either changes. */
const VERSION = 2;
const PIECE_BYTES = 1 << 20;
const FOLDER = "kernelzoo-models";
/** How long a piece waits while runs are wanted. */
const REST_MS = 50;
/** Pieces that are written and read to learn how long reading takes. */
const PROBED_PIECES = 4;

/** One weight in the file. `key` says of which bytes it was made, and by which pack kernels. */
export interface Kept {
  readonly key: string;
  readonly plain: boolean;
  readonly at: number;
  readonly bytes: number;
  /** Hashes of pieces of a mebibyte, the last one shorter. */
  readonly pieces: readonly string[];
}

/** Milliseconds that this device measured; zero where it has not. */
export interface MeasuredCosts {
  /** A mebibyte is read and held to its hash in so long. */
  readonly readMs: number;
  /** One for each weight. */
  readonly packMs: readonly number[];
  /** One for each call. */
  readonly runMs: readonly number[];
}

interface Index {
  readonly version: number;
  readonly weights: readonly Kept[];
  readonly costs: MeasuredCosts;
  readonly queues: readonly (readonly number[])[];
}

/** What is kept of a model: null for a weight that is not kept as its kernels read it now. */
export interface KeptModel extends Pick<Index, "costs" | "queues"> {
  readonly name: string;
  readonly weights: readonly (Kept | null)[];
}

/** What TypeScript's DOM library describes in workers alone. */
interface SyncFile {
  read(into: Bytes, options: { at: number }): number;
  write(bytes: Bytes, options: { at: number }): number;
  truncate(bytes: number): void;
  flush(): void;
  close(): void;
}

type FileHandle = FileSystemFileHandle & {
  createSyncAccessHandle(options: { mode: "read-only" | "readwrite" }): Promise<SyncFile>;
};

const hex = (bytes: ArrayBuffer): string =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");

const sha256 = async (bytes: Bytes): Promise<string> =>
  hex(await crypto.subtle.digest("SHA-256", bytes));

const text = new TextEncoder();

/** Where a weight's copies lie, from first to last, and where it lies plain before it is packed. */
export interface Place {
  readonly key: string;
  readonly copies: readonly Copy[];
  readonly address: number;
  readonly bytes: number;
  readonly plain: number;
  readonly plainBytes: number;
  /** It lies plain in the area that one thread has, only until it is packed. */
  readonly staged: boolean;
  /** Whether it can be kept plain: its bytes are in memory, or in the file as they are. */
  readonly keptPlain: boolean;
}

/** Two weights of one key are the same bytes. */
export function placesOf(
  plan: PlanWire,
  { weights, staging }: Pick<Placement, "weights" | "staging">,
): readonly Place[] {
  return weights.map((copies, i) => {
    const weight = plan.weights[i] as PlanWire["weights"][number];
    const { offset, bytes } = weight.storage ?? weight;
    const hashes = chunksOf(plan, offset, bytes).map(({ sha256 }) => sha256);
    const first = copies[0] as Copy;
    const last = copies.at(-1) as Copy;
    const packs = copies.map(({ pack }) => pack?.sha256 ?? "plain");
    return {
      key: JSON.stringify([offset, bytes, ...packs, ...hashes]),
      copies,
      address: first.address,
      bytes: last.address + copyBytes(last.pack, weight.bytes) - first.address,
      plain: plainPlace(copies, staging),
      plainBytes: weight.bytes,
      staged: first.pack !== null,
      keptPlain: first.pack === null || weight.storage === undefined,
    };
  });
}

/** The chunks that bytes of the file lie in, each with its place in the file as it is fetched. */
function chunksOf({ chunks }: PlanWire, offset: number, bytes: number) {
  let [at, start] = [0, 0];
  return chunks.flatMap((chunk) => {
    const placed = { ...chunk, at, start };
    at += chunk.bytes;
    start += chunk.inflated ?? chunk.bytes;
    return placed.start < offset + bytes && start > offset ? [placed] : [];
  });
}

const filesOf = async (): Promise<FileSystemDirectoryHandle> => {
  const root = await navigator.storage.getDirectory();
  return root.getDirectoryHandle(FOLDER, { create: true });
};

/** Opens a file and closes it whatever happens. */
async function opened<T>(
  folder: FileSystemDirectoryHandle,
  name: string,
  work: (file: SyncFile) => Promise<T>,
): Promise<T> {
  const handle = (await folder.getFileHandle(name, { create: true })) as FileHandle;
  const file = await handle.createSyncAccessHandle({ mode: "readwrite" });
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

/** Whether several threads may read a file, each with a reader of its own. */
export const severalRead = (): boolean =>
  "mode" in
  ((globalThis as { FileSystemSyncAccessHandle?: { prototype: object } }).FileSystemSyncAccessHandle
    ?.prototype ?? {});

/** Reads weights. */
export class KeptReader {
  readonly #file: SyncFile;

  private constructor(file: SyncFile) {
    this.#file = file;
  }

  /** Null where the browser denies it, or another thread or tab has the file. */
  static async open({ name }: KeptModel): Promise<KeptReader | null> {
    try {
      const handle = (await (await filesOf()).getFileHandle(`${name}.weights`)) as FileHandle;
      return new KeptReader(await handle.createSyncAccessHandle({ mode: "read-only" }));
    } catch {
      return null;
    }
  }

  /** False for bytes that are not those that were written. */
  async read({ at, bytes, pieces }: Kept, target: Uint8Array): Promise<boolean> {
    for (let done = 0; done < bytes; done += PIECE_BYTES) {
      const piece = new Uint8Array(Math.min(PIECE_BYTES, bytes - done));
      if (this.#file.read(piece, { at: at + done }) < piece.length) return false;
      if (!(await hasDigest(piece, pieces[done / PIECE_BYTES] ?? ""))) return false;
      target.set(piece, done);
    }
    return true;
  }

  close(): void {
    this.#file.close();
  }
}

/** Decides, from what reading takes, which weights are kept plain, and who prepares them next time. */
export type Decide = (readMs: number) => {
  readonly plain: readonly boolean[];
  readonly costs: MeasuredCosts;
  readonly queues: Index["queues"];
};

/** Owns what is kept of one model. A browser that denies the storage keeps nothing. */
export class Keeper {
  readonly #answer: ModelAnswer;
  readonly #origin: string;
  readonly #name: Promise<string>;
  /** Whether the host sends parts of the file, as far as is known. */
  #ranges = true;

  constructor({ answer, origin }: { readonly answer: ModelAnswer; readonly origin: string }) {
    this.#answer = answer;
    this.#origin = origin;
    const model = text.encode(JSON.stringify([answer.name, answer.plan.dimensions]));
    this.#name = globalThis.crypto?.subtle === undefined ? Promise.resolve("") : sha256(model);
    this.#name.catch(() => undefined);
  }

  /** Null where nothing is kept, or the browser denies it. */
  async kept(places: readonly Place[]): Promise<KeptModel | null> {
    try {
      const name = await this.#name;
      const file = await (await (await filesOf()).getFileHandle(`${name}.json`)).getFile();
      const { version, weights, costs, queues } = JSON.parse(await file.text()) as Index;
      if (version !== VERSION) return null;
      const right = places.map(({ key, bytes, plainBytes }, i) => {
        const kept = weights[i];
        const whole = kept?.key === key && kept.bytes === (kept.plain ? plainBytes : bytes);
        return whole ? kept : null;
      });
      return { name, weights: right, costs, queues };
    } catch {
      return null;
    }
  }

  /** Keeps all weights, piece by piece while no run is wanted. */
  async keep(
    memory: WebAssembly.Memory,
    places: readonly Place[],
    decide: Decide,
    busy: () => boolean,
  ): Promise<void> {
    try {
      const [folder, name] = [await filesOf(), await this.#name];
      await remove(folder, `${name}.json`);
      try {
        const index = await opened(folder, `${name}.weights`, async (file): Promise<Index> => {
          const { plain, costs, queues } = decide(await readMs(file, memory));
          file.truncate(0);
          const weights: Kept[] = [];
          let at = 0;
          for (const [i, place] of places.entries()) {
            const fetched = plain[i] ? await this.#plain(memory, i, place) : null;
            const { address, bytes, key } = place;
            const source = fetched ?? new Uint8Array(memory.buffer, address, bytes);
            const pieces = await keptPieces(file, at, source, busy);
            weights.push({ key, plain: fetched !== null, at, bytes: source.length, pieces });
            at += source.length;
          }
          file.flush();
          return { version: VERSION, weights, costs, queues };
        });
        await opened(folder, `${name}.json`, async (file) => {
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
  }

  /** A weight as its author stored it: of memory, or of its chunks alone; null where neither has it. */
  async #plain(memory: WebAssembly.Memory, i: number, place: Place): Promise<Uint8Array | null> {
    if (!place.staged) return new Uint8Array(memory.buffer, place.plain, place.plainBytes);
    if (!this.#ranges) return null;
    const { plan, weights } = this.#answer;
    const weight = plan.weights[i] as PlanWire["weights"][number];
    const chunks = chunksOf(plan, weight.offset, weight.bytes);
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.bytes, 0);
    const from = chunks[0]?.at ?? 0;
    try {
      const headers = { Range: `bytes=${from}-${from + bytes - 1}` };
      const response = await fetch(addressOf(weights.url, this.#origin), { headers });
      if (response.status !== 206) {
        // It would send the whole file for each weight.
        this.#ranges = false;
        await response.body?.cancel();
        return null;
      }
      const found = new Uint8Array(await response.arrayBuffer());
      for (const { at, bytes, sha256 } of chunks) {
        if (!(await hasDigest(found.subarray(at - from, at - from + bytes), sha256))) return null;
      }
      return found.slice(weight.offset - from, weight.offset - from + weight.bytes);
    } catch {
      return null;
    }
  }
}

/** Writes a source to the file; answers the hashes of its pieces. Throws where the storage is full. */
async function keptPieces(
  file: SyncFile,
  from: number,
  source: Uint8Array,
  busy: () => boolean,
): Promise<readonly string[]> {
  const pieces: string[] = [];
  for (let at = 0; at < source.length; at += PIECE_BYTES) {
    while (busy()) await new Promise((done) => setTimeout(done, REST_MS));
    // A copy, as neither hashes nor files are made of shared memory everywhere.
    const piece = new Uint8Array(source.subarray(at, at + PIECE_BYTES));
    written(file, piece, from + at);
    pieces.push(await sha256(piece));
  }
  return pieces;
}

/** Milliseconds that reading a mebibyte and holding it to its hash take here, undisturbed. */
async function readMs(file: SyncFile, { buffer }: WebAssembly.Memory): Promise<number> {
  const piece = new Uint8Array(new Uint8Array(buffer, 0, Math.min(PIECE_BYTES, buffer.byteLength)));
  for (let i = 0; i < PROBED_PIECES; i++) written(file, piece, i * piece.length);
  file.flush();
  let leastMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < PROBED_PIECES; i++) {
    const started = performance.now();
    file.read(piece, { at: i * piece.length });
    await sha256(piece);
    leastMs = Math.min(leastMs, performance.now() - started);
  }
  return (leastMs * PIECE_BYTES) / piece.length;
}

const remove = (folder: FileSystemDirectoryHandle, name: string): Promise<void> =>
  folder.removeEntry(name).catch(() => undefined);
