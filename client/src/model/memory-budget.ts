/** The memory that the models of one page may take together. */

interface HeldModel {
  readonly name: string;
  readonly bytes: number;
}

/** The memory that each open model takes, by its owner. */
const held = new Map<object, HeldModel>();

const GIB = 2 ** 30;
/** The memory that a device is taken to have where its browser does not tell of it. */
const UNKNOWN_GIB = 4;

/** Half of the device's memory, as far as its browser tells of it. */
function usualBytes(): number {
  const deviceGib = (globalThis.navigator as { readonly deviceMemory?: number } | undefined)
    ?.deviceMemory;
  return ((deviceGib ?? UNKNOWN_GIB) * GIB) / 2;
}

/** The memory that is left for a model that does not fit. */
export interface MemoryLack {
  readonly leftBytes: number;
  /** The models that are open, which take the rest. */
  readonly others: readonly HeldModel[];
}

/**
 * Counts the memory of a model and returns null; where it does not fit, counts nothing and returns
 * what is left.
 */
export function reserve(
  owner: object,
  name: string,
  bytes: number,
  limit = usualBytes(),
): MemoryLack | null {
  const others = [...held].filter(([holder]) => holder !== owner).map(([, model]) => model);
  const leftBytes = others.reduce((left, model) => left - model.bytes, limit);
  if (bytes > leftBytes) return { leftBytes, others };
  held.set(owner, { name, bytes });
  return null;
}

export const release = (owner: object): boolean => held.delete(owner);
