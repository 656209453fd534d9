/**
 * Swaps kernels of a language model on a GPU, between two tokens. To be proven, new kernels decode
 * the golden prompt in activations and a cache of their own, and whole tokens are timed there, with
 * the new kernels and with each one before in its place: a kernel that is faster alone and not in
 * the whole is left out.
 *
 * Finalists of a vote are timed in whole tokens, too.
 */
import type { Finalist } from "../../agent/messages.js";
import type { CallTimes } from "../../backend/wasm/dispatch.js";
import type { BoundCall } from "../../backend/webgpu/binding.js";
import { CallTimer } from "../../backend/webgpu/call-timer.js";
import { noActivity } from "../../backend/webgpu/clock.js";
import { Chain, LIMIT_MS, type PlanBuffers } from "../../backend/webgpu/plan-loader.js";
import { gpuSampleNs } from "../../backend/webgpu/sample.js";
import { type GpuTimer, gpuTimer, restingTimer } from "../../backend/webgpu/timer.js";
import { loadWholeProgram } from "../../backend/webgpu/whole-program.js";
import type { Executor, RunResult } from "../../executor/executor.js";
import type { Stored } from "../../executor/golden-tensors.js";
import { goldenOrder } from "../../language/decode-order.js";
import { GpuDecoder } from "../../language/webgpu/decoder.js";
import { median } from "../../model/profile.js";
import { now } from "../../timing/clock.js";
import type { DecoderWire } from "../../wire/model-answer.js";
import { type Calls, fittingCalls } from "../kernel-swapper.js";
import type { Comparison, Winner } from "../messages.js";
import { countedPerBlock } from "../run-times.js";
import { type Chosen, type Contested, chosenBySum, type Pair, type Trial } from "../sum-choice.js";
import { GpuSwapper } from "./gpu-swapper.js";
import { boundApart, boundCalls, type Prepared } from "./prepared-kernel.js";
import { pairsOf, searched } from "./whole-times.js";

/** Whole tokens with kernels in the place of those that run. */
interface Tokens {
  readonly pairs: (trial: Trial) => Promise<readonly Pair[]>;
  /** Returns the share of a token that these calls of it take by themselves. */
  readonly share: (chosen: Chosen, calls: readonly number[]) => Promise<number>;
}

/** The kernel that runs, among the candidates of its workload. */
const BEFORE = "before";
/** Tokens are timed behind so many, or in the middle of a shorter context. */
const PLACE = 512;
/** A sample takes no longer, unless one token does; the page's next token waits for it. */
const SAMPLE_MS = 8;
const MOST_TOKENS = 16;
/** No ballot tells less than this of what a kernel took alone: the zoo believes none that tells half. */
const LEAST_TOLD = 0.8;

/** A kernel, and what it takes over the one that runs. */
interface Rated extends Prepared {
  readonly relativeTime: number;
}

export class DecoderSwapper extends GpuSwapper<Rated, BoundCall, GpuDecoder> {
  readonly #activity = noActivity();

  protected override inferred(...asked: Parameters<Executor["run"]>): Promise<RunResult | null> {
    const [feeds, aborted] = asked;
    return this.executor.run(feeds, aborted);
  }

  /**
   * Measures what each call takes by itself, once no run is wanted. The calls of a token count as
   * often as a block has tokens. Throws KernelZooError: memory, run, timeout.
   */
  async times(): Promise<CallTimes> {
    await this.executor.stored;
    await this.runs.rest();
    return this.#apart([], async (apart) => {
      apart.goTo(this.#place);
      const { open } = apart.plan;
      const some = apart.calls[0] as BoundCall;
      const timer = await CallTimer.make(open, some, LIMIT_MS, this.runs.rest);
      try {
        return countedPerBlock(await timer.times(apart.calls, LIMIT_MS), this.#wire);
      } finally {
        timer.dispose();
      }
    });
  }

  /**
   * Rates finalists of a workload by whole tokens, over the zoo's reference: each as it took alone,
   * but for the one with which tokens take least. Null where no token runs the workload. Throws
   * KernelZooError as `prepared` does, and memory.
   */
  async ranked(
    workload: string,
    finalists: readonly Finalist[],
  ): Promise<readonly number[] | null> {
    await this.executor.stored;
    await this.runs.rest();
    const all: Rated[] = [];
    for (const { kernel, relativeTime } of finalists) {
      all.push(await this.prepared({ workload, kernel, relativeTime }));
    }
    const { step } = this.#wire;
    const calls = all[0]?.calls.filter((i) => i >= step) ?? [];
    if (calls.length === 0) return null;
    const alone = finalists.map(
      ({ kernel, relativeTime }) => [kernel.candidate, relativeTime] as const,
    );
    const search = chosenBySum([{ workload, calls: calls.length, alone }]);
    const times = new Map(alone);
    await this.#apart([], (apart) =>
      this.#tokens(apart, all, async ({ pairs, share }) => {
        const { first, chosen } = await searched(search, pairs);
        const [fastest, winner] = [first, chosen].map((choice) => choice.get(workload) as string);
        if (winner === fastest) return;
        // Rated anew, as the best of several trials is lucky, too.
        const again = await pairs({ chosen: first, instead: chosen });
        const gain = 1 - median(again.map(([before, after]) => after / before));
        if (gain <= 0) return;
        const inCall = Math.max(LEAST_TOLD, 1 - gain / (await share(first, calls)));
        times.set(winner as string, (times.get(fastest as string) as number) * inCall);
      }),
    );
    return [...times.values()];
  }

  get #wire(): DecoderWire {
    return this.executor.order.answer.plan.decoder as DecoderWire;
  }

  get #place(): number {
    return Math.min(PLACE, this.#wire.length >> 1);
  }

  /** Throws KernelZooError: network, manifest, artifact, validate, compile, run. */
  protected override async prepared(winner: Winner | Comparison): Promise<Rated> {
    const { kernel, workload } = winner;
    const { order, plan } = this.executor;
    const calls = fittingCalls(order.answer.plan, { kernel, workload });
    const program = await loadWholeProgram(plan.open, new URL(order.origin), kernel);
    const relativeTime = "relativeTime" in winner ? winner.relativeTime : 1;
    return { workload, kernel, program, calls, relativeTime };
  }

  /** Does work on a decoder of the same weights, which has its own cache. */
  #apart<Result>(
    all: readonly Prepared[],
    work: (apart: GpuDecoder) => Promise<Result>,
  ): Promise<Result> {
    const { order, plan, calls } = this.executor;
    const decode = async (buffers: PlanBuffers, bound: readonly BoundCall[]): Promise<Result> => {
      const apart = await GpuDecoder.of(order, { ...plan, buffers, bound });
      return work(apart).finally(() => apart.dispose());
    };
    return boundApart(plan, calls, all, (apart, i, own) => apart.boundWhole(i, own), decode);
  }

  /** Throws KernelZooError: memory, run, timeout. */
  protected override ranApart<Result>(
    all: readonly Prepared[],
    feeds: readonly Stored[],
    work: (outputs: readonly Stored[]) => Promise<Result>,
  ): Promise<Result> {
    return this.#apart(all, async (apart) => {
      const ran = await apart.decoded(goldenOrder(feeds), () => false);
      return work(ran?.outputs.slice(1) ?? []);
    });
  }

  /**
   * Returns the kernels that a token runs and with which it takes no less than with those before.
   */
  protected override async inVain(all: readonly Rated[]): Promise<ReadonlySet<Rated>> {
    const { step } = this.#wire;
    const ofToken = all.filter(({ calls }) => calls.some((i) => i >= step));
    if (ofToken.length === 0) return new Set();
    const contested = ofToken.map(({ workload, kernel, relativeTime, calls }): Contested => {
      const alone = [[kernel.candidate, relativeTime] as const, [BEFORE, 1] as const];
      return { workload, calls: calls.filter((i) => i >= step).length, alone, runs: BEFORE };
    });
    const { chosen } = await this.#apart([], (apart) =>
      this.#tokens(apart, ofToken, ({ pairs }) => searched(chosenBySum(contested), pairs)),
    );
    return new Set(ofToken.filter(({ workload }) => chosen.get(workload) === BEFORE));
  }

  /** Does work on whole tokens of `apart`, of which a choice may name the kernels `all`. */
  async #tokens<Result>(
    apart: GpuDecoder,
    all: readonly Prepared[],
    work: (tokens: Tokens) => Promise<Result>,
  ): Promise<Result> {
    const { open, buffers } = apart.plan;
    const { step } = this.#wire;
    const bound = await boundCalls(open, all, (i, program) => buffers.boundWhole(i, program));
    const calls = (chosen: Chosen): readonly BoundCall[] => {
      const named = bound.filter((_, k) => {
        const { workload, kernel } = all[k] as Prepared;
        return chosen.get(workload) === kernel.candidate;
      });
      const instead = new Map(named.flatMap((own) => [...own]));
      return apart.calls.map((call, i) => instead.get(i) ?? call);
    };
    const token = (chosen: Chosen): Chain => new Chain(calls(chosen).slice(step));
    const encode = (pass: GPUComputePassEncoder): void => new Chain(apart.calls).encode(pass, 0, 1);
    const own = await gpuTimer(open, encode, LIMIT_MS);
    const timer = restingTimer(own, this.runs.rest);
    try {
      const goTo = (place: number): void => apart.goTo(place);
      goTo(this.#place);
      const count = await tokensOf(timer, token(new Map()));
      const whole = { calls: count, places: [this.#place], goTo };
      const sampleNs = (work: Chain): Promise<number> =>
        gpuSampleNs(timer, work, { calls: count, passes: 1 }, now() + LIMIT_MS);
      return await work({
        pairs: ({ chosen, instead }) =>
          pairsOf(timer, this.#activity, [token(chosen), token(instead)], whole),
        share: async (chosen, among) => {
          const run = calls(chosen);
          const part = new Chain(among.map((i) => run[i] as BoundCall));
          goTo(this.#place);
          return Math.min(1, (await sampleNs(part)) / (await sampleNs(token(chosen))));
        },
      });
    } finally {
      own.dispose();
      for (const calls of bound) for (const call of calls.values()) call.dispose();
    }
  }

  protected override bound(all: readonly Prepared[]): Promise<readonly Calls<BoundCall>[]> {
    const { open, buffers } = this.executor.plan;
    return boundCalls(open, all, (call, program) => buffers.boundWhole(call, program));
  }

  /** Runs that are under way go on with them from their next submission on. */
  protected override replace(_: string, calls: Calls<BoundCall>): void {
    this.executor.replace(calls);
  }
}

/** Tokens to a sample. */
async function tokensOf(timer: GpuTimer, token: Chain): Promise<number> {
  const shape = { calls: 1, passes: 1 };
  const tokenMs = (await gpuSampleNs(timer, token, shape, now() + LIMIT_MS)) / 1e6;
  return Math.max(1, Math.min(MOST_TOKENS, Math.floor(SAMPLE_MS / tokenMs)));
}
