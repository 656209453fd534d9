import type { Arena } from "../engine/arena.js";
import { maxDifference } from "../engine/compare.js";
import { addresses, instantiate } from "../engine/instance.js";
import { type LoadedKernel, loadWhole } from "../engine/loaded.js";
import { writeInput } from "../engine/packing.js";
import { planMemory, type Region } from "../engine/plan.js";
import { fillSeeded } from "../engine/seeded.js";
import type { ManifestEntry } from "../wire/types.js";

/** Of every output entry against the default kernel, on seeded inputs. */
export interface Verification {
  readonly ok: boolean;
  readonly maxError: number;
  readonly tolerance: number;
}

const VERIFICATION_SEED = 1;

/** The entries of one kernel's output on seeded inputs, in a block of its own. */
function seededOutput(arena: Arena, loaded: LoadedKernel): Float32Array {
  const { kernel, module } = loaded;
  const plan = planMemory(kernel);
  const block = arena.allocate(plan.totalBytes);
  try {
    const output = plan.regions.at(-1) as Region;
    const entries = arena.floats(block.start + output.offset, output.elements).fill(Number.NaN);
    for (const [i, region] of plan.regions.slice(0, -1).entries()) {
      writeInput(arena, loaded, region, block.start, (view) =>
        fillSeeded(view, VERIFICATION_SEED, i, region.tensor.limit),
      );
    }
    const words = addresses(kernel, plan, block.start);
    instantiate(module, arena.memory, words, kernel.range_extent).runAll();
    return entries.slice();
  } finally {
    arena.free(block);
  }
}

/** Compares `used` with the default kernel of its entry. Throws KernelZooError as loading does. */
export async function verified(
  origin: URL,
  arena: Arena,
  entry: ManifestEntry,
  used: LoadedKernel,
): Promise<Verification> {
  const fallback = await loadWhole(origin, entry.fallback);
  const maxError = maxDifference(seededOutput(arena, used), seededOutput(arena, fallback));
  const { tolerance } = entry;
  return { ok: maxError <= tolerance, maxError, tolerance };
}
