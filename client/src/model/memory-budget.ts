/** The memory that the models of one page may take together. */

interface HeldModel {
  readonly name: string;
  readonly bytes: number;
}

/** What each model that is open takes, by an object of its own. */
const held = new Map<object, HeldModel>();

const GIB = 2 ** 30;
/** Where a browser does not tell of its device's memory. */
const UNKNOWN_GIB = 4;

/** Half of the device's memory, as far as its browser tells of it. */
function usualBytes(): number {
  const told = (globalThis.navigator as { readonly deviceMemory?: number } | undefined)
    ?.deviceMemory;
  return ((told ?? UNKNOWN_GIB) * GIB) / 2;
}

/** Why a model does not fit. */
export interface MemoryLack {
  readonly leftBytes: number;
  /** The models that are open, which take the rest. */
  readonly others: readonly HeldModel[];
}

/** What a model lacks that does not fit; null, and its memory is counted, where it does. */
export function reserve(
  owner: object,
  name: string,
  bytes: number,
  limit = usualBytes(),
): MemoryLack | null {
  const others = [...held].filter(([each]) => each !== owner).map(([, model]) => model);
  const leftBytes = others.reduce((left, model) => left - model.bytes, limit);
  if (bytes > leftBytes) return { leftBytes, others };
  held.set(owner, { name, bytes });
  return null;
}

export const release = (owner: object): boolean => held.delete(owner);
