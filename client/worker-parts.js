/** Which modules of several workers are one text that these share. */

/**
 * Modules and the workers that need them, as bits.
 * @typedef {{ by: bigint; bytes: number; ids: string[] }} Part
 */

/** So many texts beside those of single workers. */
const MOST_PARTS = 16;

/** The part of modules that are no file's, which the bundler adds. */
const UNNAMED = "bundler";

/**
 * The worker of most models, which the runtime carries: what others share with it is one part, which
 * each page with a model has already.
 */
const CARRIED = /\/plain-worker\.ts$/;

/**
 * Modules that the same workers need, where merging two such parts would make some worker carry what
 * it does not need: the cheapest merges come first.
 * @param {readonly string[]} workers
 */
export function partition(workers) {
  /** @type {Map<string, string>} */
  const names = new Map();
  /** The parts that one needs before it. @type {Map<string, Set<string>>} */
  const before = new Map();
  const nameOf = (/** @type {string} */ id) => names.get(id) ?? UNNAMED;
  /** @type {import("rolldown").Plugin} */
  const plugin = {
    name: "worker-parts",
    buildEnd() {
      const needed = new Map();
      const importedBy = (/** @type {string} */ id) => this.getModuleInfo(id)?.importedIds ?? [];
      for (const [i, worker] of workers.entries()) {
        const reached = new Set([worker]);
        for (const id of reached) for (const imported of importedBy(id)) reached.add(imported);
        for (const id of reached) needed.set(id, (needed.get(id) ?? 0n) | (1n << BigInt(i)));
      }
      const carried = 1n << BigInt(workers.findIndex((file) => CARRIED.test(file)));
      /** @type {Map<bigint, Part>} */
      const alike = new Map();
      for (const [id, by] of needed) {
        if (count(by) < 2) {
          names.set(id, `worker${workers.findIndex((_, i) => by === 1n << BigInt(i))}`);
          continue;
        }
        if (by & carried) {
          names.set(id, "carried");
          continue;
        }
        /** @type {Part} */
        const part = alike.get(by) ?? { by, bytes: 0, ids: [] };
        part.bytes += this.getModuleInfo(id)?.code?.length ?? 0;
        part.ids.push(id);
        alike.set(by, part);
      }
      const parts = merged([...alike.values()], importedBy);
      for (const [i, { ids }] of parts.entries()) for (const id of ids) names.set(id, `part${i}`);
      for (const [id, name] of names) {
        const needed = before.get(name) ?? new Set();
        for (const imported of importedBy(id)) needed.add(nameOf(imported));
        before.set(name, needed);
      }
    },
  };
  /** @type {(name: string, order: Set<string>, open: Set<string>) => Set<string>} */
  const visited = (name, order, open) => {
    if (open.has(name)) return order;
    open.add(name);
    for (const needed of before.get(name) ?? []) visited(needed, order, open);
    return order.add(name);
  };
  /** The parts of a worker's file, each behind those that it needs. @param {string} file */
  const inOrder = (file) => [...visited(nameOf(file), new Set(), new Set())];
  return { plugin, nameOf, inOrder, unnamed: UNNAMED };
}

/** @param {bigint} bits */
const count = (bits) => [...bits.toString(2)].filter((bit) => bit === "1").length;

/**
 * @param {Part[]} parts
 * @param {(id: string) => readonly string[]} importedBy
 */
function merged(parts, importedBy) {
  while (parts.length > MOST_PARTS) {
    let [cost, best] = [Number.POSITIVE_INFINITY, parts];
    for (const [i, a] of parts.entries()) {
      for (const b of parts.slice(i + 1)) {
        const by = a.by | b.by;
        const extra = a.bytes * count(by & ~a.by) + b.bytes * count(by & ~b.by);
        if (extra >= cost) continue;
        const both = { by, bytes: a.bytes + b.bytes, ids: [...a.ids, ...b.ids] };
        const next = [...parts.filter((part) => part !== a && part !== b), both];
        if (!isCircular(next, importedBy)) [cost, best] = [extra, next];
      }
    }
    if (best === parts) return parts;
    parts = best;
  }
  return parts;
}

/**
 * Whether parts would wait for each other.
 * @param {readonly Part[]} parts
 * @param {(id: string) => readonly string[]} importedBy
 */
function isCircular(parts, importedBy) {
  const partOf = new Map(parts.flatMap((part) => part.ids.map((id) => [id, part])));
  const [open, done] = [new Set(), new Set()];
  /** @type {(part: Part) => boolean} */
  const visits = (part) => {
    if (done.has(part)) return false;
    if (open.has(part)) return true;
    open.add(part);
    const next = new Set(part.ids.flatMap(importedBy).map((id) => partOf.get(id)));
    next.delete(part);
    const circular = [...next].some((other) => other !== undefined && visits(other));
    done.add(part);
    return circular;
  };
  return parts.some(visits);
}
