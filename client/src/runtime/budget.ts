/** The memory that the models of one page may take together. */

/** What each model that is open takes, by an object of its own. */
const held = new Map<object, { readonly name: string; readonly bytes: number }>();

const GIB = 2 ** 30;
/** Where a browser does not tell of its device's memory. */
const UNKNOWN_GIB = 4;

/** Half of the device's memory; browsers tell of 8 GiB at the most. */
function usualBytes(): number {
  const told = (globalThis.navigator as { readonly deviceMemory?: number } | undefined)
    ?.deviceMemory;
  return ((told ?? UNKNOWN_GIB) * GIB) / 2;
}

const mib = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;

/** Why a model does not fit; null, and its memory is counted, where it does. */
export function reserve(
  owner: object,
  name: string,
  bytes: number,
  limit = usualBytes(),
): string | null {
  const others = [...held].filter(([each]) => each !== owner).map(([, model]) => model);
  const taken = others.reduce((sum, model) => sum + model.bytes, 0);
  if (taken + bytes <= limit) {
    held.set(owner, { name, bytes });
    return null;
  }
  const open = others.map((model) => `${model.name} (${mib(model.bytes)})`).join(", ");
  const remedy = open === "" ? "Give more memoryBytes" : `Dispose of ${open}`;
  const left = mib(Math.max(0, limit - taken));
  return `${name} takes ${mib(bytes)}; ${left} are left. ${remedy}.`;
}

export const release = (owner: object): boolean => held.delete(owner);
