import { fetchArtifact } from "../engine/artifact.js";
import type { KernelWire } from "../wire/types.js";
import type { OpenDevice } from "./device.js";
import { compileProgram, type Program } from "./program.js";

/** Fetches, checks and compiles. Rejects with KernelZooError. */
export async function loadProgram(
  open: OpenDevice,
  origin: URL,
  kernel: KernelWire,
  signal?: AbortSignal,
): Promise<Program> {
  const bytes = await fetchArtifact(origin, kernel, signal);
  return compileProgram(open, kernel, new TextDecoder().decode(bytes));
}
