/** Compiled kernels of both targets, by content: each is fetched and compiled once. */
import type { OpenDevice } from "../backend/webgpu/device.js";
import { loadProgram, type Program } from "../backend/webgpu/program.js";
import { fetchArtifact } from "../engine/artifact.js";
import { compile } from "../engine/modules.js";
import type { ArtifactWire, KernelWire } from "../wire/types.js";

/** A map that keeps the `capacity` entries used last. */
export class Lru<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#capacity) return;
      this.#entries.delete(oldest);
    }
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }
}

/** Answers the value of a key, and makes it first where the cache does not hold it. */
export type Keep<Value> = (key: string, make: () => Promise<Value>) => Promise<Value>;

/** A cache of the `most` values used last; a value that fails to be made is not kept. */
export function keptPromises<Value>(most: number): Keep<Value> {
  const kept = new Lru<string, Promise<Value>>(most);
  return (key, make) => {
    const known = kept.get(key);
    if (known !== undefined) return known;
    const making = make();
    kept.set(key, making);
    making.catch(() => kept.delete(key));
    return making;
  };
}

/** Compiled kernels, and pack kernels, by content. */
export interface LoadKernel {
  (kernel: ArtifactWire): Promise<WebAssembly.Module>;
  /** Fetches the bytes that are compiled. */
  readonly bytes: (kernel: ArtifactWire) => Promise<Uint8Array<ArrayBuffer>>;
}

/** Enough for a lease of 16, its reference and the finalists. */
export const KEPT = 32;

/** Begins work when it suits. */
export type Begin = <T>(work: () => Promise<T>) => Promise<T>;

const atOnce: Begin = (work) => work();

/** Fetches and compiles each kernel once while it stays among the last used, as `begin` lets it. */
export function cachedLoader(origin: URL, signal: AbortSignal, begin = atOnce): LoadKernel {
  const keep = keptPromises<WebAssembly.Module>(KEPT);
  const keepBytes = keptPromises<Uint8Array<ArrayBuffer>>(KEPT);
  const bytes = (kernel: ArtifactWire) =>
    keepBytes(kernel.sha256, () => fetchArtifact(origin, kernel, signal));
  const load = (kernel: ArtifactWire) =>
    keep(kernel.sha256, () => begin(async () => compile(await bytes(kernel), kernel)));
  return Object.assign(load, { bytes });
}

/** Compiled kernels of a device, by content. */
export type LoadProgram = (open: OpenDevice, kernel: KernelWire) => Promise<Program>;

/**
 * Fetches and compiles each kernel once for a device, as `begin` lets it. Kernels of one text may differ
 * in how many workgroups they take: rows of a product are no part of it.
 */
export function cachedPrograms(origin: URL, signal: AbortSignal, begin = atOnce): LoadProgram {
  const devices = new WeakMap<OpenDevice, Keep<Program>>();
  return async (open, kernel) => {
    const keep = devices.get(open) ?? keptPromises<Program>(KEPT);
    devices.set(open, keep);
    const kept = await keep(kernel.sha256, () =>
      begin(() => loadProgram(open, origin, kernel, signal)),
    );
    return { ...kept, kernel };
  };
}
