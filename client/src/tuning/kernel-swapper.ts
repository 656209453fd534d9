/**
 * Puts kernels in the place of others between two runs of a model, whatever it runs on:
 *
 *  1. Fetch and compile each kernel.
 *  2. Run the model once on its golden inputs with the new kernels, in memory of its own, so that
 *     inferences that are asked for meanwhile go first. Outputs must be right.
 *  3. Where an executor can tell, leave out the kernels with which the whole takes no less.
 *  4. Let the calls run the new kernels. The kernels before are kept, and take their places again
 *     where a kernel traps, or disagrees with the one before on an inference's own numbers.
 */
import { KernelZooError, sentence } from "../engine/error.js";
import { refuseMisfit } from "../executor/call-tensors.js";
import type { Executor, RunResult } from "../executor/executor.js";
import { GoldenFile } from "../executor/golden-file.js";
import { countOff, Deviation, type Stored } from "../executor/golden-tensors.js";
import { RunsFirst } from "../executor/run-priority.js";
import { paced } from "../timing/paced-loop.js";
import type { PlanWire } from "../wire/model-answer.js";
import type { Comparison, KeptKernel, Winner } from "./messages.js";

export interface SwapPorts {
  /** Lets messages in. */
  readonly breathe: () => Promise<void>;
  /** `again`: the artifact that runs from now on. */
  readonly regressed: (workload: string, reason: string, again: string) => void;
}

/** A kernel that is ready to run. */
interface OfWorkload {
  readonly workload: string;
}

/** Calls of the plan by their numbers, each with what it runs. */
export type Calls<Call> = ReadonlyMap<number, Call>;

/** `Prepared` is a kernel that is ready to run here, and `Call` what the executor runs for a call. */
export abstract class KernelSwapper<
  Prepared extends OfWorkload,
  Call,
  Runs extends Executor = Executor,
> {
  readonly #ports: SwapPorts;
  protected readonly executor: Runs;
  protected readonly golden: GoldenFile;
  protected readonly runs: RunsFirst;
  /**
   * The calls that run again where a kernel is taken back, by workload: those before the first
   * swap, with which all later kernels are compared. A later one may be wrong itself.
   */
  protected readonly before = new Map<string, Calls<Call>>();

  constructor(executor: Runs, ports: SwapPorts) {
    this.#ports = ports;
    this.executor = executor;
    this.runs = new RunsFirst(ports.breathe);
    this.golden = new GoldenFile(executor.order, this.runs.rest);
  }

  /** Runs the model, and takes back kernels that are found to be wrong meanwhile. */
  protected abstract inferred(...asked: Parameters<Executor["run"]>): Promise<RunResult | null>;
  protected checked(...asked: Parameters<Executor["check"]>): Promise<boolean> {
    return this.executor.check(...asked);
  }
  /** Does work that prepares kernels, then frees memory that is of no use after it. */
  protected enclosed<Result>(work: () => Promise<Result>): Promise<Result> {
    return work();
  }
  /** Changes calls while no run is under way and none begins, where a run cannot go on with others. */
  betweenRuns<Result>(change: () => Promise<Result>): Promise<Result> {
    return change();
  }
  /** Throws KernelZooError where the kernel cannot run here. */
  protected abstract prepared(winner: Winner | Comparison): Promise<Prepared>;
  /**
   * Runs the model on `feeds` with the kernels `all`, apart from its other runs, and does work on
   * the outputs. Throws KernelZooError.
   */
  protected abstract ranApart<Result>(
    all: readonly Prepared[],
    feeds: readonly Stored[],
    work: (outputs: readonly Stored[]) => Promise<Result>,
  ): Promise<Result>;
  /** Returns the kernels with which the whole is no faster, though they are faster alone. */
  protected async inVain(_: readonly Prepared[]): Promise<ReadonlySet<Prepared>> {
    return new Set();
  }
  /**
   * Returns the calls of each kernel, ready to take the places of others. Throws KernelZooError,
   * with all as it was.
   */
  protected abstract bound(all: readonly Prepared[]): Promise<readonly Calls<Call>[]>;
  /** Returns what the calls of these numbers run now. */
  protected abstract running(calls: Calls<unknown>): Calls<Call>;
  /**
   * Has `calls` run from the next run on. They are compared with `before`, which is null where a
   * kernel is taken back.
   */
  protected abstract replace(
    workload: string,
    calls: Calls<Call>,
    before: Calls<Call> | null,
  ): Promise<void> | void;
  /**
   * Has the kernel that runs, which won in an earlier visit, audited beside the zoo's, as if that
   * had run before it.
   */
  protected setBeside?(prepared: Prepared, running: string): Promise<void>;
  protected abstract artifactOf(call: Call): string;
  /** Frees calls that are of no use any more, once no run that is under way reads them. */
  protected release?(calls: Calls<Call>): void;

  run(...asked: Parameters<Executor["run"]>): Promise<RunResult | null> {
    return this.runs.first(() => this.inferred(...asked));
  }

  /** Compares the golden outputs as the executor does. */
  check(...asked: Parameters<Executor["check"]>): Promise<boolean> {
    return this.runs.first(() => this.checked(...asked));
  }

  /**
   * Swaps kernels in, and answers why each of them does not run; null for those that do from now
   * on. Throws KernelZooError (network), with all as it was.
   */
  async swap(all: readonly Winner[]): Promise<Refusals> {
    await this.executor.stored;
    await this.runs.rest();
    return this.enclosed(() =>
      swapped<Prepared>(all, {
        prepared: (winner) => this.prepared(winner),
        wrong: (prepared) => this.#wrong(prepared),
        inVain: (prepared) => this.inVain(prepared),
        adopt: (prepared) => this.betweenRuns(() => this.#adopt(prepared)),
      }),
    );
  }

  /**
   * Has kernels that won in an earlier visit audited beside the zoo's, as if they had taken their place
   * in this one. Where the zoo's does not run here there is nothing to compare. Throws KernelZooError
   * (network).
   */
  async compare(all: readonly Comparison[]): Promise<void> {
    if (this.setBeside === undefined) return;
    await this.executor.stored;
    for (const comparison of all) {
      const { workload, running } = comparison;
      if (this.before.has(workload)) continue;
      await this.runs.rest();
      try {
        await this.enclosed(async () => this.setBeside?.(await this.prepared(comparison), running));
      } catch (thrown) {
        reasonOf(thrown);
      }
    }
  }

  /**
   * Has the kernel before run again. Answers false where nothing ran before, or that is forgotten,
   * or another run has found the fault, too.
   */
  async takeBack(workload: string, reason: string): Promise<boolean> {
    const before = this.before.get(workload);
    if (before === undefined) return false;
    this.before.delete(workload);
    const running = this.running(before);
    await this.replace(workload, before, null);
    this.release?.(running);
    const [again] = before.values();
    this.#ports.regressed(workload, reason, this.artifactOf(again as Call));
    return true;
  }

  /** Throws KernelZooError, with all as it was. */
  async #adopt(all: readonly Prepared[]): Promise<void> {
    const bound = await this.bound(all);
    for (const [k, { workload }] of all.entries()) {
      const calls = bound[k] as Calls<Call>;
      const running = this.running(calls);
      const known = this.before.get(workload);
      if (known !== undefined) this.release?.(running);
      this.before.set(workload, known ?? running);
      await this.replace(workload, calls, known ?? running);
    }
  }

  /**
   * Says what is wrong with the golden outputs where `all` run; null where nothing is. Throws
   * KernelZooError (network).
   */
  async #wrong(all: readonly Prepared[]): Promise<string | null> {
    const { plan } = this.executor.order.answer;
    try {
      return await this.ranApart(all, await this.golden.inputs(), (outputs) =>
        wrongGolden(plan, outputs, this.golden, this.runs.rest),
      );
    } catch (thrown) {
      return reasonOf(thrown);
    }
  }
}

/** The calls that run a workload's kernel. Throws KernelZooError (manifest) for one of other tensors. */
export function fittingCalls(plan: PlanWire, { kernel, workload }: KeptKernel): readonly number[] {
  const number = plan.kernels.indexOf(workload);
  const fitting: number[] = [];
  for (const [i, call] of plan.calls.entries()) {
    if (call.kernel !== number) continue;
    refuseMisfit(plan, call, kernel);
    fitting.push(i);
  }
  return fitting;
}

/**
 * Says what is wrong with golden outputs; null where nothing is. Rests after each slice of them.
 */
export async function wrongGolden(
  { outputs, golden }: PlanWire,
  computed: readonly Stored[],
  file: Pick<GoldenFile, "output">,
  rest: () => Promise<void>,
): Promise<string | null> {
  const look = async (i: number, work: (right: Stored, own: Stored) => void): Promise<void> => {
    let at = 0;
    for await (const right of file.output(i)) {
      const own = (computed[i] as Stored).subarray(at, at + right.length);
      await paced(right.length, rest, (from, to) => {
        work(right.subarray(from, to), own.subarray(from, to));
        return true;
      });
      at += right.length;
    }
  };
  for (const [i, { off = 0 }] of golden.outputs.entries()) {
    const deviation = new Deviation();
    await look(i, (right, own) => deviation.add(right, own));
    if (deviation.isWithin(golden.tolerance)) continue;
    let count = 0;
    const limit = deviation.limit(golden.tolerance);
    if (off > 0) await look(i, (right, own) => (count += countOff(right, own, limit)));
    if (off === 0 || count > off) return `The golden output ${outputs[i]?.name} is wrong with it.`;
  }
  return null;
}

/** Returns what was thrown as a reason against a kernel. Throws it again where the zoo is away. */
export function reasonOf(thrown: unknown): string {
  if (thrown instanceof KernelZooError && thrown.stage === "network") throw thrown;
  return sentence(thrown);
}

/**
 * The reasons why kernels do not run, in the kernels' order; null for those that do from now on.
 */
export type Refusals = readonly (string | null)[];

/** The steps of a swap, in their order. */
export interface SwapSteps<Prepared> {
  /** Throws KernelZooError where the kernel cannot run here. */
  readonly prepared: (winner: Winner) => Promise<Prepared>;
  /**
   * Says what is wrong with the golden outputs where `all` run; null where nothing is. Throws
   * KernelZooError (network).
   */
  readonly wrong: (all: readonly Prepared[]) => Promise<string | null>;
  /** Returns the kernels with which the whole is no faster, though they are faster alone. */
  readonly inVain?: (all: readonly Prepared[]) => Promise<ReadonlySet<Prepared>>;
  /** Lets calls run the new kernels from the next run on. Throws KernelZooError, with all as it was. */
  readonly adopt: (all: readonly Prepared[]) => Promise<void>;
}

const IN_VAIN = "The whole takes no less with it.";
const NONE: ReadonlySet<never> = new Set();

/**
 * Takes the steps of a swap, and answers the reasons against kernels. Throws KernelZooError
 * (network), with all as it was.
 */
export async function swapped<Prepared>(
  winners: readonly Winner[],
  { prepared, wrong, inVain, adopt }: SwapSteps<Prepared>,
): Promise<Refusals> {
  const refused = new Map<Winner, string>();
  const ready = new Map<Winner, Prepared>();
  for (const winner of winners) {
    try {
      ready.set(winner, await prepared(winner));
    } catch (thrown) {
      refused.set(winner, reasonOf(thrown));
    }
  }
  const reasons = await wrongAmong([...ready.values()], wrong);
  const refuse = (why: (kernel: Prepared) => string | undefined): void => {
    for (const [winner, kernel] of ready) {
      const reason = why(kernel);
      if (reason === undefined) continue;
      refused.set(winner, reason);
      ready.delete(winner);
    }
  };
  refuse((kernel) => reasons.get(kernel));
  try {
    const vain = (await inVain?.([...ready.values()])) ?? NONE;
    refuse((kernel) => (vain.has(kernel as never) ? IN_VAIN : undefined));
    await adopt([...ready.values()]);
  } catch (thrown) {
    for (const winner of ready.keys()) refused.set(winner, sentence(thrown));
  }
  return winners.map((winner) => refused.get(winner) ?? null);
}

/**
 * Finds the kernels with which the golden outputs are wrong, and why. All are tried together first,
 * as most are right.
 */
async function wrongAmong<Prepared>(
  all: readonly Prepared[],
  wrongOf: SwapSteps<Prepared>["wrong"],
): Promise<ReadonlyMap<Prepared, string>> {
  const reason = all.length === 0 ? null : await wrongOf(all);
  if (reason === null) return new Map();
  if (all.length === 1) return new Map([[all[0] as Prepared, reason]]);
  const wrong = new Map<Prepared, string>();
  for (const kernel of all) {
    const alone = await wrongOf([kernel]);
    if (alone !== null) wrong.set(kernel, alone);
  }
  // Each is right alone, and all together are not.
  if (wrong.size === 0) for (const kernel of all) wrong.set(kernel, reason);
  return wrong;
}
