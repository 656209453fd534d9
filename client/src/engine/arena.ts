import type { TensorWire } from "../wire/types.js";
import { KernelZooError } from "./error.js";
import { ALIGNMENT, align, type TensorView, viewOf } from "./tensors.js";

const PAGE_BYTES = 65_536;
/**
 * Upper limits to try, in pages. Kernels import memory with at most 65536; a shared memory
 * reserves its maximum as addresses, which phones and 32-bit engines may refuse.
 */
const MAXIMUM_PAGES = [65_536, 16_384, 4_096] as const;

/** Bytes [start, end) of the memory. */
export interface Block {
  readonly start: number;
  readonly end: number;
}

/** The lowest gap of at least `bytes` between sorted `taken` blocks, or after the last. */
export function firstFit(taken: readonly Block[], bytes: number): Block {
  // Address 0 stays unused, so that a forgotten pointer does not look like a tensor.
  let start = ALIGNMENT;
  for (const block of taken) {
    if (block.start - start >= bytes) break;
    start = align(block.end);
  }
  return { start, end: start + bytes };
}

function createMemory(): WebAssembly.Memory {
  for (const maximum of MAXIMUM_PAGES) {
    try {
      return new WebAssembly.Memory({ initial: 1, maximum, shared: true });
    } catch {
      // The engine refuses the reservation: try a smaller one.
    }
  }
  throw new KernelZooError(
    "memory",
    "This browser refuses a shared WebAssembly memory. Update it, or close other pages.",
  );
}

/** The arena of the page's zoos, while one of them is in use. */
let shared: WeakRef<Arena> | undefined;

/**
 * One arena for all zoos of a page. A memory reserves 4 GiB of addresses, of which a browser gives a
 * page some sixty, and takes them back when it likes.
 */
export function pageArena(): Arena {
  const known = shared?.deref();
  if (known !== undefined) return known;
  const arena = new Arena();
  shared = new WeakRef(arena);
  return arena;
}

/**
 * Owns one shared memory and lends blocks of it. Growth keeps earlier views valid, as the
 * buffer of a shared memory is never detached. Shared memory needs no isolated page as long as
 * it is not posted to another thread (checked in Chromium 156).
 */
export class Arena {
  readonly memory: WebAssembly.Memory;
  #taken: readonly Block[];

  /** `taken` blocks, sorted, are not lent. */
  constructor(memory = createMemory(), taken: readonly Block[] = []) {
    this.memory = memory;
    this.#taken = taken;
  }

  /** Lends `bytes`, aligned to 64. Throws KernelZooError (memory) when the engine has no more. */
  allocate(bytes: number): Block {
    const block = firstFit(this.#taken, bytes);
    this.#reach(block.end);
    this.#taken = [...this.#taken, block].sort((a, b) => a.start - b.start);
    return block;
  }

  free(block: Block): void {
    this.#taken = this.#taken.filter((other) => other !== block);
  }

  view(start: number, { dtype }: Pick<TensorWire, "dtype">, length: number): TensorView {
    return viewOf(this.memory.buffer, dtype, start, length);
  }

  #reach(end: number): void {
    const missing = Math.ceil((end - this.memory.buffer.byteLength) / PAGE_BYTES);
    if (missing <= 0) return;
    try {
      this.memory.grow(missing);
    } catch (cause) {
      throw new KernelZooError(
        "memory",
        `The browser cannot give ${Math.ceil(end / 2 ** 20)} MiB to kernels. Dispose of some.`,
        cause,
      );
    }
  }
}
