/**
 * Chooses the kernels of a model that cost a page least, all in all, for the runs that it wants of
 * it:
 *
 *     total = fetched + prepared + runs × run
 *
 * The zoo tells for each workload which kernel is the fastest once it is warm, and others that cost
 * less before that. Several are linked in modules; a kernel that its module lacks is fetched alone.
 */
import { packOf, partsOf } from "../executor/kernel-parts.js";
import type { ModelAnswer, PlanWire } from "../wire/model-answer.js";
import type { ArtifactWire, KernelWire, ServedKernel } from "../wire/types.js";

/** The speed of the network: a file takes one request and the time of its bytes. */
export interface Network {
  readonly bytesPerMs: number;
  readonly requestMs: number;
}

/** 50 Mbit/s; files are asked for together. */
const USUAL: Network = { bytesPerMs: 6_250, requestMs: 2 };

type RunCosts = NonNullable<ServedKernel["costs"]>;
type Module = NonNullable<ModelAnswer["module"]>;

/** A kernel of a workload; `costs` are null where nobody has told them. */
interface Option {
  readonly kernel: KernelWire;
  readonly costs: RunCosts | null;
}

/** The entry's own, and those for few runs. */
const optionsOf = ({ kernel, costs = null, by_runs = [] }: ServedKernel): readonly Option[] =>
  costs === null ? [{ kernel, costs }] : [{ kernel, costs }, ...by_runs];

/** Calls of a workload in an inference, and weights that they read packed, each counted once. */
interface Use {
  readonly calls: number;
  readonly packed: (kernel: KernelWire) => number;
}

function useOf({ kernels, calls, tensors }: PlanWire, workload: string): Use {
  const own = calls.filter(({ kernel }) => kernels[kernel] === workload);
  const packed = (kernel: KernelWire): number => {
    const weights = own.flatMap((call) =>
      call.tensors.flatMap((tensor, i) =>
        packOf(kernel, i) === null ? [] : [`${i}:${tensors[tensor]?.weight}`],
      ),
    );
    return new Set(weights).size;
  };
  return { calls: own.length, packed };
}

function workMs({ kernel, costs }: Option, { calls, packed }: Use, runs: number): number {
  if (costs === null) return 0;
  const { compile_ns, pack_ns, first_run_ns, run_ns } = costs;
  // `pack_ns` is of all the layouts that the kernel wants.
  const packs = (packed(kernel) / Math.max(1, kernel.layouts.length)) * pack_ns;
  const prepared = compile_ns + packs + Math.max(0, first_run_ns - run_ns);
  return (prepared + runs * calls * run_ns) / 1e6;
}

const fileMs = (size: number, { bytesPerMs, requestMs }: Network): number =>
  requestMs + size / bytesPerMs;

function fetchMs(kernel: KernelWire, module: Module | null, network: Network): number {
  const alone = (part: ArtifactWire): boolean => module?.functions[part.sha256] === undefined;
  return partsOf(kernel)
    .filter(alone)
    .reduce((sum, { size_bytes }) => sum + fileMs(size_bytes, network), 0);
}

/** Kernels by workload, the module that has most of them, and what all of it takes. */
export interface Choice {
  readonly options: ReadonlyMap<string, Option>;
  readonly module: Module | null;
  readonly totalMs: number;
}

/**
 * Sums the milliseconds that kernels cost a page that runs the model so often; those of unknown
 * costs count with their fetch alone.
 */
export function totalMs(
  { plan }: ModelAnswer,
  options: Choice["options"],
  module: Module | null,
  runs: number,
  network: Network = USUAL,
): number {
  let sum = module === null ? 0 : fileMs(module.size_bytes, network);
  for (const [workload, option] of options) {
    sum += fetchMs(option.kernel, module, network);
    sum += workMs(option, useOf(plan, workload), runs);
  }
  return sum;
}

function chosenWith(
  answer: ModelAnswer,
  module: Module | null,
  runs: number,
  network: Network,
): Choice {
  const options = new Map<string, Option>();
  for (const [workload, served] of Object.entries(answer.kernels)) {
    const use = useOf(answer.plan, workload);
    const cost = (option: Option): number =>
      fetchMs(option.kernel, module, network) + workMs(option, use, runs);
    const [first, ...others] = optionsOf(served);
    const best = others.reduce((a, b) => (cost(b) < cost(a) ? b : a), first as Option);
    options.set(workload, best);
  }
  return { options, module, totalMs: totalMs(answer, options, module, runs, network) };
}

/** The choice of the least total. Given its module, workloads do not depend on one another. */
export function choose(answer: ModelAnswer, runs: number, network: Network = USUAL): Choice {
  const others = (answer.modules_by_runs ?? []).map(({ module }) => module);
  const [first, ...further] = [answer.module, ...others].map((module) =>
    chosenWith(answer, module, runs, network),
  );
  return further.reduce((a, b) => (b.totalMs < a.totalMs ? b : a), first as Choice);
}

/** The answer with the kernels and the module of a choice. */
export function withChoice(answer: ModelAnswer, { options, module }: Choice): ModelAnswer {
  const kernels = Object.entries(answer.kernels).map(([workload, served]) => {
    const { kernel, costs } = options.get(workload) as Option;
    if (kernel === served.kernel || costs === null) return [workload, served] as const;
    const { run_ns: best_ns, identities } = costs;
    return [workload, { ...served, kernel, costs, timing: { best_ns, identities } }] as const;
  });
  return { ...answer, module, kernels: Object.fromEntries(kernels) };
}
