import { Arena } from "../engine/arena.js";
import { KernelZooError } from "../engine/error.js";
import { type LoadedKernel, loadWhole } from "../engine/modules.js";
import { ALIGNMENT, planMemory } from "../engine/tensors.js";
import type { Deadline } from "../gateway/deadline.js";
import type { Failures } from "../gateway/failures.js";
import type { Threads } from "../threads/threads.js";
import { now } from "../timing/clock.js";
import type { KernelWire, ManifestEntry, ServedKernel } from "../wire/types.js";
import {
  type Backend,
  chooseTarget,
  type Gpu,
  type GpuSide,
  gpuFailure,
  noteHang,
} from "./backend.js";
import type { GpuBuffers, GpuPart } from "./gpu-kernel.js";
import type { KernelParts, LoadedKernels, RemoteKernel, ScriptPart } from "./info.js";
import { Kernel } from "./kernel.js";

/** Says which kernel of an entry to load, from where, into what. */
export interface LoadRequest {
  readonly origin: URL;
  readonly arena: Arena;
  readonly threads: Threads;
  readonly gpu: GpuSide;
  readonly backend: Backend;
  /** The reason why JavaScript runs in place of WebAssembly; null where WebAssembly may run. */
  readonly forbidden: string | null;
  /** Loads a kernel in JavaScript; undefined where none is asked for. */
  readonly inJavaScript?: (request: LoadRequest, served: ServedKernel) => Promise<RemoteKernel>;
  readonly entry: ManifestEntry;
  /** Names of inputs that stay the same. */
  readonly constants: readonly string[];
  readonly manifestMs: number;
  readonly deviceClass: string;
  readonly failures: Failures;
  readonly use: "best" | "fallback";
  /** Compare the kernel with the default before it is handed out. */
  readonly verify: boolean;
  readonly buffers: GpuBuffers | undefined;
  readonly deadline: Deadline;
}

/** The zoo's kernel, or the default with the reason where the zoo's does not work here. */
async function bestOf<Made>(
  { use, entry, failures }: LoadRequest,
  deviceClass: string,
  served: ServedKernel,
  load: (used: KernelWire) => Promise<Made>,
): Promise<LoadedKernels<Made>> {
  const { kernel, fallback } = served;
  const loaded = async (used: KernelWire, fallbackReason: string | null) => {
    return { made: await load(used), served, used, fallbackReason };
  };
  if (use === "fallback") return loaded(fallback, "It was asked for.");
  const failed = failures.reason(kernel.sha256);
  if (failed !== null && kernel.sha256 !== fallback.sha256) return loaded(fallback, failed);
  try {
    return await loaded(kernel, null);
  } catch (thrown) {
    failures.note(
      { workload: entry.workload, device_class: deviceClass, artifact: kernel.sha256 },
      thrown,
    );
    const known = thrown instanceof KernelZooError && !noteHang(thrown);
    if (!known || kernel.sha256 === fallback.sha256) throw thrown;
    return loaded(fallback, thrown.message);
  }
}

async function loadWasm(request: LoadRequest): Promise<LoadedKernels<LoadedKernel> | null> {
  const { origin, entry, deadline, deviceClass } = request;
  if (entry.wasm === null) return null;
  return bestOf(request, deviceClass, entry.wasm, (used) => loadWhole(origin, used, deadline()));
}

async function loadGpu(
  request: LoadRequest,
  served: ServedKernel,
  { owner, deviceClass }: Gpu,
): Promise<LoadedKernels<GpuPart>> {
  const { origin, buffers, deadline } = request;
  const [open, { loadPart }] = await Promise.all([owner.device(), import("./gpu-kernel.js")]);
  return bestOf(request, deviceClass, served, (used) =>
    loadPart(open, { origin, deadline }, used, buffers),
  );
}

type RemoteParts = Pick<KernelParts, "remote" | "backendReason"> &
  Partial<Pick<KernelParts, "arena">>;

/** The kernel in a worker, which is sent copies of what lies in an arena of its own. */
async function loadScript(
  request: LoadRequest,
  served: ServedKernel,
  load: Required<LoadRequest>["inJavaScript"],
): Promise<RemoteParts> {
  const remote = await bestOf(
    request,
    request.deviceClass,
    served,
    async (): Promise<ScriptPart> => {
      return { target: "javascript", kernel: await load(request, served) };
    },
  );
  const { totalBytes } = planMemory({ tensors: served.kernel.tensors, scratch_bytes: 0 });
  const memory = { buffer: new ArrayBuffer(ALIGNMENT + totalBytes) } as WebAssembly.Memory;
  return { remote, backendReason: request.forbidden, arena: new Arena(memory) };
}

/** The kernel elsewhere than in WebAssembly where that is the choice; where it does not work, the reason. */
async function chosenRemote(request: LoadRequest): Promise<RemoteParts> {
  const { backend, entry, gpu, inJavaScript } = request;
  if (entry.javascript && inJavaScript) return loadScript(request, entry.javascript, inJavaScript);
  const { target, reason } = chooseTarget(backend, entry, gpu);
  if (target === "wasm" || gpu.kind === "none" || entry.webgpu === null) {
    return { remote: null, backendReason: reason };
  }
  try {
    return { remote: await loadGpu(request, entry.webgpu, gpu), backendReason: reason };
  } catch (thrown) {
    noteHang(thrown);
    if (!(thrown instanceof KernelZooError) || entry.wasm === null) throw thrown;
    return { remote: null, backendReason: gpuFailure() ?? thrown.message };
  }
}

/**
 * A kernel that cannot be bound to its memory is replaced by the default, as one that fails to
 * load.
 */
async function bound<Inputs>(request: LoadRequest, parts: KernelParts): Promise<Kernel<Inputs>> {
  try {
    return new Kernel<Inputs>(parts);
  } catch (thrown) {
    const { wasm } = parts;
    const known = thrown instanceof KernelZooError && wasm !== null;
    if (!known || wasm.used.sha256 === wasm.served.fallback.sha256) throw thrown;
    const { failures, entry, deviceClass } = request;
    const failed = {
      workload: entry.workload,
      device_class: deviceClass,
      artifact: wasm.used.sha256,
    };
    failures.note(failed, thrown);
    const usual = await loadWasm({ ...request, use: "fallback" });
    return new Kernel<Inputs>({
      ...parts,
      wasm: usual && { ...usual, fallbackReason: thrown.message },
    });
  }
}

/** The kernel, once it has shown that it computes what the default does; else the default. */
export async function loadKernel<Inputs>(request: LoadRequest): Promise<Kernel<Inputs>> {
  const kernel = await loadUnverified<Inputs>(request);
  if (!request.verify || (await kernel.works())) return kernel;
  kernel.dispose();
  // It is known by now as one that failed, so that its default is loaded.
  return loadUnverified(request);
}

async function loadUnverified<Inputs>(request: LoadRequest): Promise<Kernel<Inputs>> {
  const { origin, deadline, arena, threads, entry, constants, manifestMs, deviceClass, failures } =
    request;
  const start = now();
  const [wasm, chosen] = await Promise.all([loadWasm(request), chosenRemote(request)]);
  const loadMs = now() - start;
  const gpuClass = request.gpu.kind === "gpu" ? request.gpu.deviceClass : "";
  const classes = { wasm: deviceClass, javascript: deviceClass, webgpu: gpuClass };
  const origins = { origin, deadline, arena, threads, entry, constants, classes, failures };
  const parts = { ...origins, wasm, ...chosen, manifestMs, loadMs };
  return bound(request, parts);
}
