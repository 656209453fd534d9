import type { Arena } from "../engine/arena.js";
import { KernelZooError } from "../engine/error.js";
import { type LoadedKernel, loadWhole } from "../engine/loaded.js";
import { loadProgram } from "../gpu/load.js";
import type { Threads } from "../threads/threads.js";
import { now } from "../timing/clock.js";
import type { KernelWire, ManifestEntry, ServedKernel } from "../wire/types.js";
import { type Backend, chooseTarget, type Gpu, type GpuSide } from "./backend.js";
import { type GpuBuffers, GpuKernel } from "./gpu-kernel.js";
import type { GpuPart, KernelParts, Loaded } from "./info.js";
import { Kernel } from "./kernel.js";

/** Which kernel of an entry to load, from where, into what. */
export interface LoadRequest {
  readonly origin: URL;
  readonly arena: Arena;
  readonly threads: Threads;
  readonly gpu: GpuSide;
  readonly backend: Backend;
  readonly entry: ManifestEntry;
  /** Names of inputs that stay the same. */
  readonly constants: readonly string[];
  readonly manifestMs: number;
  readonly use: "best" | "fallback";
  readonly buffers: GpuBuffers | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The zoo's kernel, or the default with the reason where the zoo's does not work here. */
async function bestOf<Made>(
  { use }: LoadRequest,
  served: ServedKernel,
  load: (used: KernelWire) => Promise<Made>,
): Promise<Loaded<Made>> {
  const { kernel, fallback } = served;
  const loaded = async (used: KernelWire, fallbackReason: string | null) => {
    return { made: await load(used), served, used, fallbackReason };
  };
  if (use === "fallback") return loaded(fallback, "It was asked for.");
  try {
    return await loaded(kernel, null);
  } catch (thrown) {
    if (!(thrown instanceof KernelZooError) || kernel.sha256 === fallback.sha256) throw thrown;
    return loaded(fallback, thrown.message);
  }
}

async function loadWasm(request: LoadRequest): Promise<Loaded<LoadedKernel> | null> {
  const { origin, entry, signal } = request;
  if (entry.wasm === null) return null;
  return bestOf(request, entry.wasm, (used) => loadWhole(origin, used, signal));
}

async function loadGpu(
  request: LoadRequest,
  served: ServedKernel,
  { owner }: Gpu,
): Promise<Loaded<GpuPart>> {
  const { origin, buffers, signal } = request;
  const open = await owner.device();
  return bestOf(request, served, async (used) => {
    const program = await loadProgram(open, origin, used, signal);
    return { program, kernel: await GpuKernel.make(program, buffers) };
  });
}

type GpuParts = Pick<KernelParts, "gpu" | "backendReason">;

/** The kernel on the GPU where that is the choice; where it does not work, the reason. */
async function chosenGpu(request: LoadRequest): Promise<GpuParts> {
  const { backend, entry, gpu } = request;
  const { target, reason } = chooseTarget(backend, entry, gpu);
  if (target === "wasm" || gpu.kind === "none" || entry.webgpu === null) {
    return { gpu: null, backendReason: reason };
  }
  try {
    return { gpu: await loadGpu(request, entry.webgpu, gpu), backendReason: reason };
  } catch (thrown) {
    if (!(thrown instanceof KernelZooError) || entry.wasm === null) throw thrown;
    return { gpu: null, backendReason: thrown.message };
  }
}

/** A kernel that cannot be bound to its memory is replaced by the default, as one that fails to load. */
async function bound<Inputs>(request: LoadRequest, parts: KernelParts): Promise<Kernel<Inputs>> {
  try {
    return new Kernel<Inputs>(parts);
  } catch (thrown) {
    const { wasm } = parts;
    const known = thrown instanceof KernelZooError && wasm !== null;
    if (!known || wasm.used.sha256 === wasm.served.fallback.sha256) throw thrown;
    const usual = await loadWasm({ ...request, use: "fallback" });
    return new Kernel<Inputs>({
      ...parts,
      wasm: usual && { ...usual, fallbackReason: thrown.message },
    });
  }
}

export async function loadKernel<Inputs>(request: LoadRequest): Promise<Kernel<Inputs>> {
  const { origin, arena, threads, entry, constants, manifestMs } = request;
  const start = now();
  const [wasm, chosen] = await Promise.all([loadWasm(request), chosenGpu(request)]);
  const loadMs = now() - start;
  const origins = { origin, arena, threads, entry, constants };
  const parts = { ...origins, wasm, ...chosen, manifestMs, loadMs };
  return bound(request, parts);
}
