/** Measures what an agent tells of a device beside its class. */
import { levelsOf, WORKING_SETS } from "../probe/levels.js";
import { measureLines } from "../probe/probe.js";
import type { ProbeLevels } from "../wire/types.js";
import type { Notebook } from "./notebook.js";
import { type Alone, type DeviceProfile, noted, probeKey } from "./profile.js";

/**
 * 100 ms once per engine version, then noted. Null where the measurement was too disturbed to tell.
 */
export async function readLevels(
  notebook: Notebook,
  { engine, peaks }: DeviceProfile,
  alone: Alone,
): Promise<ProbeLevels | null> {
  const measure = async (): Promise<ProbeLevels | null> => {
    const { rates, settled } = await alone(() => measureLines(WORKING_SETS));
    return settled ? levelsOf(peaks, rates) : null;
  };
  return noted(notebook, `levels:${probeKey(engine)}`, measure, (levels) => levels !== null);
}
