/** Finds the kernels of a model that are at fault, and puts their defaults in their places. */
import { KernelZooError } from "../engine/error.js";
import type { Failure } from "../executor/messages.js";
import { postReport } from "../gateway/failures.js";
import { loadKernel } from "../sdk/load.js";
import type { ServedKernel, TargetKind } from "../wire/types.js";
import type { Host } from "./host.js";
import type { Fallbacks } from "./planned-calls.js";
import type { Answered } from "./request.js";

/** An entry of a manifest, but for its workload and its kernel. */
const SINGLE = { flops: 0, wasm: null, webgpu: null } as const;

/**
 * Replaces the kernel that is to blame; where none is named, those that compute something else than
 * their defaults do, and all where none does. Throws KernelZooError where nothing is left to
 * replace.
 */
export async function replaced(
  host: Host,
  target: TargetKind,
  answered: Answered,
  fallbacks: Fallbacks,
  { fault, stage, message, output }: Failure,
): Promise<Fallbacks> {
  const { failures } = host;
  const { device_class, kernels } = answered.answer;
  const error = new KernelZooError(stage, message);
  const left = Object.entries(kernels).filter(
    ([workload, { kernel, fallback }]) =>
      kernel.sha256 !== fallback.sha256 && !fallbacks.has(workload),
  );
  const next = new Map(fallbacks);
  if (fault !== null) {
    const { workload, artifact } = fault;
    failures.note({ workload, device_class, artifact }, error);
    if (left.some(([key]) => key === workload)) next.set(workload, fault.message);
  } else if (stage === "validate" || stage === "compile" || stage === "compare") {
    for (const [workload, served] of left) {
      const reason = await wrong(host, target, answered, workload, served);
      if (reason !== null) next.set(workload, reason);
    }
    const known = next.size > fallbacks.size;
    if (!known) for (const [workload] of left) next.set(workload, message);
  }
  if (next.size > fallbacks.size) return next;
  if (output !== undefined) tellWrong(answered, output);
  throw error;
}

/** Wrong outputs that this page has told of, each by its golden file and class. */
const reported = new Set<string>();

/**
 * Tells the zoo, once in a page, that a model is wrong on default kernels. A file or a bundle on a
 * static host has nobody to tell.
 */
function tellWrong({ answer, origin }: Answered, output: string): void {
  const { name, device_class, plan } = answer;
  const golden = plan.golden.sha256;
  const about = `${golden} ${device_class}`;
  if (new URL(origin).pathname.endsWith(".json") || reported.has(about)) return;
  reported.add(about);
  const url = new URL("./v1/wrong-outputs", origin);
  postReport(url, { model: name, golden, device_class, output });
}

/**
 * Compares a kernel with its default and returns what is wrong with it, which the zoo is told; null
 * where nothing is.
 */
async function wrong(
  host: Host,
  target: TargetKind,
  { answer, origin }: Answered,
  workload: string,
  served: ServedKernel,
): Promise<string | null> {
  const { device_class } = answer;
  const advice = { target, basis: "none" } as const;
  const kernel = await loadKernel({
    ...host,
    gpu: await host.openGpu(),
    origin: new URL(origin),
    deviceClass: device_class,
    entry: { ...SINGLE, workload, [target]: served, advice },
    constants: [],
    ...{ backend: target, buffers: undefined },
    ...{ use: "best", verify: true, manifestMs: 0 },
  });
  kernel.dispose();
  return kernel.info.fallbackReason;
}
