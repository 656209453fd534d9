/**
 * Keeps graphs on a device, for this origin alone: in files of the Origin Private File System, or
 * in records of IndexedDB where a browser has no such files, as in its private windows. A graph is
 * one text that describes it, and bytes beside it.
 */
import type { Bytes } from "../engine/bytes.js";
import { after } from "../timing/clock.js";

export type FilesKind = "files" | "records";

export interface GraphWriter {
  /** `bytes` may be shared memory. Rejects where the storage is full. */
  write(at: number, bytes: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

export interface GraphReader {
  /** Fills `into`, which may be shared memory; false where there are fewer bytes. */
  read(at: number, into: Uint8Array): Promise<boolean>;
  close(): void;
}

export interface GraphFiles {
  readonly kind: FilesKind;
  /** Descriptions by name. */
  all(): Promise<ReadonlyMap<string, string>>;
  /** Reads the description of a graph; undefined where there is none. */
  description(name: string): Promise<string | undefined>;
  describe(name: string, text: string): Promise<void>;
  /** Bytes are there once the writer is closed. */
  writer(name: string): Promise<GraphWriter>;
  reader(name: string): Promise<GraphReader>;
  /** Removes the description first, as bytes without one are no graph. */
  remove(name: string): Promise<void>;
  /** Removes bytes that nothing describes, which nobody may be writing. */
  sweep(): Promise<void>;
}

const NAME = "kernelzoo-graphs";
const DESCRIPTION = ".json";
const WEIGHTS = ".weights";

/**
 * A browser learns some milliseconds later that a file was closed (hundreds on a busy device), and
 * removes none that is open. What another tab has open stays, and is swept later.
 */
const REMOVAL_MS = 3_000;
const RETRY_MS = 10;

/** A synchronous file handle; TypeScript's DOM library describes it in workers alone. */
interface SyncFile {
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  close(): void;
}

type FileHandle = FileSystemFileHandle & {
  createSyncAccessHandle?(options?: { mode: "read-only" }): Promise<SyncFile>;
};

type Folder = FileSystemDirectoryHandle & { keys(): AsyncIterable<string> };

/**
 * Opens a file to be read: in a worker by a synchronous handle, which reads twice as fast, unless
 * another tab has the file.
 */
async function readerOf(handle: FileHandle): Promise<GraphReader> {
  const file = await handle.createSyncAccessHandle?.({ mode: "read-only" }).catch(() => undefined);
  if (file !== undefined) {
    const read = (at: number, into: Uint8Array): boolean => file.read(into, { at }) === into.length;
    return {
      async read(at, into) {
        try {
          return read(at, into);
        } catch (thrown) {
          // This browser reads into no shared memory.
          if (!(thrown instanceof TypeError)) throw thrown;
          const own = new Uint8Array(into.length);
          const whole = read(at, own);
          into.set(own);
          return whole;
        }
      },
      close: () => file.close(),
    };
  }
  const blob = await handle.getFile();
  return {
    async read(at, into) {
      const piece = new Uint8Array(await blob.slice(at, at + into.length).arrayBuffer());
      into.set(piece);
      return piece.length === into.length;
    },
    close: () => undefined,
  };
}

/** Copies bytes of shared memory, which only synchronous handles take. */
const unshared = (bytes: Uint8Array): Bytes =>
  (bytes.buffer instanceof ArrayBuffer ? bytes : bytes.slice()) as Bytes;

/**
 * Opens a file to be written: in a worker by a synchronous handle, which takes bytes where they
 * lie, while others want memory as large.
 */
async function writerOf(handle: FileHandle): Promise<GraphWriter> {
  const file = await handle.createSyncAccessHandle?.();
  if (file === undefined) {
    const stream = await handle.createWritable();
    return {
      write: (position, bytes) => stream.write({ type: "write", position, data: unshared(bytes) }),
      close: () => stream.close(),
    };
  }
  const written = (at: number, bytes: Uint8Array): number => {
    try {
      return file.write(bytes, { at });
    } catch (thrown) {
      // This browser writes no shared memory.
      if (!(thrown instanceof TypeError)) throw thrown;
      return file.write(unshared(bytes), { at });
    }
  };
  return {
    async write(at, bytes) {
      if (written(at, bytes) < bytes.length) throw new Error("the storage is full");
    },
    close: async () => file.close(),
  };
}

async function inFiles(): Promise<GraphFiles> {
  if (!("createWritable" in FileSystemFileHandle.prototype)) throw new Error("no writable files");
  const root = await navigator.storage.getDirectory();
  const folder = (await root.getDirectoryHandle(NAME, { create: true })) as Folder;
  const created = (file: string): Promise<FileHandle> =>
    folder.getFileHandle(file, { create: true });
  const remove = async (file: string): Promise<void> => {
    const deadline = performance.now() + REMOVAL_MS;
    while (performance.now() < deadline) {
      const thrown = await folder.removeEntry(file).catch((thrown: DOMException) => thrown);
      if (thrown?.name !== "NoModificationAllowedError") return;
      await after(RETRY_MS);
    }
  };
  const names = async (end: string): Promise<string[]> => {
    const stems: string[] = [];
    for await (const file of folder.keys()) {
      if (file.endsWith(end)) stems.push(file.slice(0, -end.length));
    }
    return stems;
  };
  const description = async (name: string): Promise<string | undefined> => {
    try {
      return await (await (await folder.getFileHandle(name + DESCRIPTION)).getFile()).text();
    } catch {
      return undefined;
    }
  };
  return {
    kind: "files",
    description,
    async all() {
      const texts = new Map<string, string>();
      for (const name of await names(DESCRIPTION)) {
        const text = await description(name);
        if (text !== undefined) texts.set(name, text);
      }
      return texts;
    },
    async describe(name, text) {
      const file = await (await created(name + DESCRIPTION)).createWritable();
      await file.write(text);
      await file.close();
    },
    writer: async (name) => writerOf(await created(name + WEIGHTS)),
    reader: async (name) => readerOf(await folder.getFileHandle(name + WEIGHTS)),
    async remove(name) {
      await remove(name + DESCRIPTION);
      await remove(name + WEIGHTS);
    },
    async sweep() {
      const described = await names(DESCRIPTION);
      for (const name of await names(WEIGHTS)) {
        if (!described.includes(name)) await remove(name + WEIGHTS);
      }
    },
  };
}

const asked = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/**
 * Keeps graphs in IndexedDB: pieces by the name of their graph and the place of their first byte.
 */
async function inRecords(): Promise<GraphFiles> {
  const opening = indexedDB.open(NAME, 1);
  opening.onupgradeneeded = () => {
    for (const store of ["descriptions", "pieces"]) opening.result.createObjectStore(store);
  };
  const database = await asked(opening);
  const read = <T>(name: string, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> =>
    asked(work(database.transaction(name).objectStore(name)));
  const change = (name: string, work: (store: IDBObjectStore) => void): Promise<void> =>
    new Promise((resolve, reject) => {
      const transaction = database.transaction(name, "readwrite");
      transaction.oncomplete = () => resolve();
      // A full storage is told by the abort alone.
      transaction.onabort = () => reject(transaction.error);
      work(transaction.objectStore(name));
    });
  const piecesOf = (name: string): IDBKeyRange => IDBKeyRange.bound([name], [name, []]);
  const names = (): Promise<IDBValidKey[]> => read("descriptions", (store) => store.getAllKeys());
  return {
    kind: "records",
    async all() {
      // In one transaction, as another tab may write or remove a graph meanwhile.
      const store = database.transaction("descriptions").objectStore("descriptions");
      const [keys, texts] = await Promise.all([
        asked(store.getAllKeys()),
        asked<string[]>(store.getAll()),
      ]);
      return new Map(keys.map((name, i) => [String(name), texts[i] ?? ""] as const));
    },
    description: (name) => read<string | undefined>("descriptions", (store) => store.get(name)),
    describe: (name, text) => change("descriptions", (store) => store.put(text, name)),
    async writer(name) {
      return {
        write(at, bytes) {
          // The record of a view of a part would have the whole buffer.
          const own = bytes.length < bytes.buffer.byteLength ? bytes.slice() : unshared(bytes);
          return change("pieces", (store) => store.put(own, [name, at]));
        },
        close: async () => undefined,
      };
    },
    async reader(name) {
      return {
        async read(at, into) {
          const piece = await read<Bytes | undefined>("pieces", (store) => store.get([name, at]));
          if (piece?.length !== into.length) return false;
          into.set(piece);
          return true;
        },
        close: () => undefined,
      };
    },
    async remove(name) {
      await change("descriptions", (store) => store.delete(name));
      await change("pieces", (store) => store.delete(piecesOf(name)));
    },
    async sweep() {
      const described = await names();
      const pieces = await read("pieces", (store) => store.getAllKeys());
      const graphs = new Set(pieces.map((key) => (key as readonly string[])[0] as string));
      for (const name of graphs) {
        if (!described.includes(name)) {
          await change("pieces", (store) => store.delete(piecesOf(name)));
        }
      }
    },
  };
}

/** The files of graphs, of one kind where that is told. Rejects where the browser denies both. */
export async function graphFiles(kind?: FilesKind): Promise<GraphFiles> {
  if (kind === "records") return inRecords();
  try {
    return await inFiles();
  } catch (thrown) {
    if (kind === "files") throw thrown;
    return inRecords();
  }
}
