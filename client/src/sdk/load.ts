import type { Arena } from "../engine/arena.js";
import { loadModule } from "../engine/artifact.js";
import { KernelZooError } from "../engine/error.js";
import type { Threads } from "../threads/threads.js";
import { now } from "../timing/clock.js";
import type { KernelWire } from "../wire/types.js";
import { Kernel } from "./kernel.js";
import type { WasmEntry } from "./manifest.js";

/** Which kernel of an entry to load, from where, into what. */
export interface LoadRequest {
  readonly origin: URL;
  readonly arena: Arena;
  readonly threads: Threads;
  readonly entry: WasmEntry;
  readonly manifestMs: number;
  readonly use: "best" | "fallback";
  readonly signal: AbortSignal | undefined;
}

async function load<Names extends string>(
  request: LoadRequest,
  used: KernelWire,
  fallbackReason: string | null,
): Promise<Kernel<Names>> {
  const { origin, arena, threads, entry, manifestMs, signal } = request;
  const start = now();
  const module = await loadModule(origin, used, signal);
  const { workload, flops, level, state, version, evidence } = entry;
  const { candidate, sha256 } = used;
  const loadMs = now() - start;
  const origins = { workload, flops, level, state, version, evidence, candidate, sha256 };
  const threading = {
    threads: threads.kind === "pool" ? threads.pool.size : 1,
    singleThreadReason: threads.kind === "pool" ? null : threads.reason,
  };
  const info = { ...origins, fallbackReason, ...threading, manifestMs, loadMs };
  return new Kernel<Names>({ origin, arena, threads, entry, used, module, info });
}

/** The zoo's kernel, or the default with the reason where the zoo's does not work here. */
export async function loadKernel<Names extends string>(
  request: LoadRequest,
): Promise<Kernel<Names>> {
  const { kernel, fallback } = request.entry;
  if (request.use === "fallback") return load(request, fallback, "It was asked for.");
  try {
    return await load(request, kernel, null);
  } catch (thrown) {
    if (!(thrown instanceof KernelZooError) || kernel.sha256 === fallback.sha256) throw thrown;
    return load(request, fallback, thrown.message);
  }
}
