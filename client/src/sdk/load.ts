import type { Arena } from "../engine/arena.js";
import { KernelZooError } from "../engine/error.js";
import { loadWhole } from "../engine/loaded.js";
import type { Threads } from "../threads/threads.js";
import { now } from "../timing/clock.js";
import type { KernelWire, ManifestEntry } from "../wire/types.js";
import { Kernel } from "./kernel.js";

/** Which kernel of an entry to load, from where, into what. */
export interface LoadRequest {
  readonly origin: URL;
  readonly arena: Arena;
  readonly threads: Threads;
  readonly entry: ManifestEntry;
  /** Names of inputs that stay the same. */
  readonly constants: readonly string[];
  readonly manifestMs: number;
  readonly use: "best" | "fallback";
  readonly signal: AbortSignal | undefined;
}

async function load<Inputs>(
  request: LoadRequest,
  kernel: KernelWire,
  fallbackReason: string | null,
): Promise<Kernel<Inputs>> {
  const { origin, arena, threads, entry, constants, manifestMs, signal } = request;
  const start = now();
  const used = await loadWhole(origin, kernel, signal);
  const { workload, flops, level, state, version, evidence } = entry;
  const { candidate, sha256 } = kernel;
  const loadMs = now() - start;
  const origins = { workload, flops, level, state, version, evidence, candidate, sha256 };
  const threading = {
    threads: threads.kind === "pool" ? threads.pool.size : 1,
    singleThreadReason: threads.kind === "pool" ? null : threads.reason,
  };
  const info = { ...origins, fallbackReason, ...threading, manifestMs, loadMs };
  return new Kernel<Inputs>({ origin, arena, threads, entry, used, constants, info });
}

/** The zoo's kernel, or the default with the reason where the zoo's does not work here. */
export async function loadKernel<Inputs>(request: LoadRequest): Promise<Kernel<Inputs>> {
  const { kernel, fallback } = request.entry;
  if (request.use === "fallback") return load(request, fallback, "It was asked for.");
  try {
    return await load(request, kernel, null);
  } catch (thrown) {
    if (!(thrown instanceof KernelZooError) || kernel.sha256 === fallback.sha256) throw thrown;
    return load(request, fallback, thrown.message);
  }
}
