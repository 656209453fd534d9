/**
 * Puts kernels in the place of others between two tokens of a language model on a GPU:
 *
 *  1. Fetch and compile. Weights lie plain there, so that nothing is packed anew.
 *  2. Decode the golden prompt with the new kernels, in activations and a cache of their own. Logits
 *     must be right.
 *  3. Time whole tokens there, with the new kernels and with each one before in its place: what is
 *     faster alone and not in the whole is left out.
 *  4. Let the calls run the new kernels.
 *
 * Finalists of a vote are timed as in the third step.
 */
import type { Finalist } from "../../agent/messages.js";
import type { CallTimes } from "../../backend/wasm/dispatch.js";
import type { BoundCall } from "../../backend/webgpu/binding.js";
import { CallTimer } from "../../backend/webgpu/call-timer.js";
import { noActivity } from "../../backend/webgpu/clock.js";
import { Chain, LIMIT_MS } from "../../backend/webgpu/plan-loader.js";
import type { Program } from "../../backend/webgpu/program.js";
import { gpuSampleNs } from "../../backend/webgpu/sample.js";
import { type GpuTimer, gpuTimer, restingTimer } from "../../backend/webgpu/timer.js";
import { loadWholeProgram } from "../../backend/webgpu/whole-program.js";
import { GoldenFile } from "../../executor/golden-file.js";
import { RunsFirst } from "../../executor/run-priority.js";
import type { RunResult } from "../../executor/wasm-executor.js";
import { goldenOrder } from "../../language/decode-order.js";
import { Decoder } from "../../language/webgpu/decoder.js";
import { median } from "../../model/profile.js";
import { now } from "../../timing/clock.js";
import type { DecoderWire } from "../../wire/model-answer.js";
import type { Found } from "../messages.js";
import { type Chosen, type Contested, chosenBySum, type Pair, type Trial } from "../sum-choice.js";
import {
  fittingCalls,
  type Refusals,
  reasonOf,
  type SwapPorts,
  swapped,
  wrongGolden,
} from "../swap-steps.js";
import { pairsOf, searched } from "./whole-times.js";

/** A kernel that is ready to run, and the calls that shall run it. */
interface Prepared {
  readonly found: Found;
  readonly program: Program;
  readonly calls: readonly number[];
}

/** Whole tokens with kernels in the place of those that run. */
interface Tokens {
  readonly pairs: (trial: Trial) => Promise<readonly Pair[]>;
  /** What so many calls of a token take by themselves, as a share of it. */
  readonly share: (chosen: Chosen, calls: readonly number[]) => Promise<number>;
}

/** The kernel that runs, among the candidates of its workload. */
const BEFORE = "before";
/** Tokens are timed behind so many, or in the middle of a shorter context. */
const PLACE = 512;
/** A sample takes no longer, but for a token that does; the page's next token waits for it. */
const SAMPLE_MS = 8;
const MOST_TOKENS = 16;
/** No ballot tells less than this of what a kernel took alone: the zoo believes none that tells half. */
const LEAST_TOLD = 0.8;

export class DecoderSwapper {
  readonly #decoder: Decoder;
  readonly #ports: SwapPorts;
  readonly #golden: GoldenFile;
  readonly #runs: RunsFirst;
  readonly #activity = noActivity();
  /** What runs again where a kernel is taken back: that before the first swap, as of any model. */
  readonly #before = new Map<string, ReadonlyMap<number, BoundCall>>();

  constructor(decoder: Decoder, ports: SwapPorts) {
    this.#decoder = decoder;
    this.#ports = ports;
    this.#runs = new RunsFirst(ports.breathe);
    this.#golden = new GoldenFile(decoder.order, this.#runs.rest);
  }

  run(...asked: Parameters<Decoder["run"]>): Promise<RunResult | null> {
    return this.#runs.first(() => this.#decoder.run(...asked));
  }

  /** Compares the golden logits as the decoder does. */
  check(...asked: Parameters<Decoder["check"]>): Promise<boolean> {
    return this.#runs.first(() => this.#decoder.check(...asked));
  }

  /**
   * What each call takes by itself, once no run is wanted. Those of a token count as often as a block
   * has tokens. Throws KernelZooError: memory, run, timeout.
   */
  async times(): Promise<CallTimes> {
    await this.#decoder.stored;
    await this.#runs.rest();
    return this.#apart([], async (apart) => {
      apart.goTo(this.#place);
      const { open } = apart.plan;
      const some = apart.calls[0] as BoundCall;
      const timer = await CallTimer.make(open, some, LIMIT_MS, this.#runs.rest);
      try {
        const times = await timer.times(apart.calls, LIMIT_MS);
        const { step, rows } = this.#wire;
        return times.map((each, i) => (i >= 3 * step && i % 3 === 1 ? rows * each : each));
      } finally {
        timer.dispose();
      }
    });
  }

  async swap(all: readonly Found[]): Promise<Refusals> {
    await this.#decoder.stored;
    await this.#runs.rest();
    return swapped<Prepared>(all, {
      prepared: (found) => this.#prepared(found),
      wrong: (prepared) => this.#wrong(prepared),
      inVain: (prepared) => this.#inVain(prepared),
      adopt: async (prepared) => {
        for (const each of prepared) await this.#adopt(each);
      },
    });
  }

  /**
   * What finalists of a workload take by whole tokens, over the zoo's reference: as they took alone,
   * but for the one with which tokens take least. Null where no token runs the workload. Throws
   * KernelZooError as they do that are prepared, and memory.
   */
  async ranked(
    workload: string,
    finalists: readonly Finalist[],
  ): Promise<readonly number[] | null> {
    await this.#decoder.stored;
    await this.#runs.rest();
    const all: Prepared[] = [];
    for (const { kernel, relativeTime } of finalists) {
      all.push(await this.#prepared({ workload, kernel, relativeTime }));
    }
    const { step } = this.#wire;
    const calls = all[0]?.calls.filter((i) => i >= step) ?? [];
    if (calls.length === 0) return null;
    const alone = finalists.map((each) => [each.kernel.candidate, each.relativeTime] as const);
    const search = chosenBySum([{ workload, calls: calls.length, alone }]);
    const told = new Map(alone);
    await this.#apart([], (apart) =>
      this.#tokens(apart, all, async ({ pairs, share }) => {
        const { first, chosen } = await searched(search, pairs);
        const [fastest, winner] = [first, chosen].map((each) => each.get(workload) as string);
        if (winner === fastest) return;
        // Timed anew, as the best of several trials is lucky, too.
        const again = await pairs({ chosen: first, instead: chosen });
        const gain = 1 - median(again.map(([before, after]) => after / before));
        if (gain <= 0) return;
        const inCall = Math.max(LEAST_TOLD, 1 - gain / (await share(first, calls)));
        told.set(winner as string, (told.get(fastest as string) as number) * inCall);
      }),
    );
    return [...told.values()];
  }

  async takeBack(workload: string, reason: string): Promise<void> {
    const before = this.#before.get(workload);
    if (before === undefined) return;
    this.#before.delete(workload);
    void this.#runs.release(this.#ofCalls([...before.keys()]));
    this.#decoder.replace(before);
    const [again] = before.values();
    this.#ports.regressed(workload, reason, again?.program.kernel.sha256 ?? "");
  }

  get #wire(): DecoderWire {
    return this.#decoder.order.answer.plan.decoder as DecoderWire;
  }

  get #place(): number {
    return Math.min(PLACE, this.#wire.length >> 1);
  }

  /** Throws KernelZooError: network, manifest, artifact, validate, compile, run. */
  async #prepared(found: Found): Promise<Prepared> {
    const { order, plan } = this.#decoder;
    const calls = fittingCalls(order.answer.plan, found);
    const program = await loadWholeProgram(plan.open, new URL(order.origin), found.kernel);
    return { found, program, calls };
  }

  /** Does work on a decoder of the same weights, which has its own cache. */
  async #apart<Result>(
    all: readonly Prepared[],
    work: (apart: Decoder) => Promise<Result>,
  ): Promise<Result> {
    const { order, plan, calls } = this.#decoder;
    const { open } = plan;
    const programs = new Map(all.flatMap((each) => each.calls.map((i) => [i, each.program])));
    const buffers = await open.scoped(() => plan.buffers.apart(), LIMIT_MS);
    try {
      const bound = await open.scoped(
        () =>
          calls.map((call, i) => {
            const program = programs.get(i) ?? call.program;
            return buffers.boundWhole(i, program);
          }),
        LIMIT_MS,
      );
      try {
        const apart = await Decoder.of(order, { ...plan, buffers, bound });
        return await work(apart).finally(() => apart.dispose());
      } finally {
        for (const each of bound) each.dispose();
      }
    } finally {
      buffers.dispose();
    }
  }

  /**
   * What is wrong with the golden logits where `all` run; null where nothing is. Throws
   * KernelZooError (network).
   */
  async #wrong(all: readonly Prepared[]): Promise<string | null> {
    const { plan } = this.#decoder.order.answer;
    try {
      const order = goldenOrder(await this.#golden.inputs());
      const ran = await this.#apart(all, (apart) => apart.decoded(order, () => false));
      return await wrongGolden(plan, ran?.outputs.slice(1) ?? [], this.#golden, this.#runs.rest);
    } catch (thrown) {
      return reasonOf(thrown);
    }
  }

  /** Kernels that a token runs, and with which it takes no less than with those before. */
  async #inVain(all: readonly Prepared[]): Promise<ReadonlySet<Prepared>> {
    const { step } = this.#wire;
    const ofToken = all.filter(({ calls }) => calls.some((i) => i >= step));
    if (ofToken.length === 0) return new Set();
    const contested = ofToken.map(({ found, calls }): Contested => {
      const { workload, kernel, relativeTime } = found;
      const alone = [[kernel.candidate, relativeTime] as const, [BEFORE, 1] as const];
      return { workload, calls: calls.filter((i) => i >= step).length, alone };
    });
    const { chosen } = await this.#apart([], (apart) =>
      this.#tokens(apart, ofToken, ({ pairs }) => searched(chosenBySum(contested), pairs)),
    );
    return new Set(ofToken.filter(({ found }) => chosen.get(found.workload) === BEFORE));
  }

  /** Does work on whole tokens of `apart`, of which a choice may name the kernels `all`. */
  async #tokens<Result>(
    apart: Decoder,
    all: readonly Prepared[],
    work: (tokens: Tokens) => Promise<Result>,
  ): Promise<Result> {
    const { open, buffers } = apart.plan;
    const { step } = this.#wire;
    const bound = await open.scoped(
      () =>
        all.map(({ program, calls }) =>
          calls.map((i) => [i, buffers.boundWhole(i, program)] as const),
        ),
      LIMIT_MS,
    );
    const calls = (chosen: Chosen): readonly BoundCall[] => {
      const named = bound.filter((_, k) => {
        const { workload, kernel } = (all[k] as Prepared).found;
        return chosen.get(workload) === kernel.candidate;
      });
      const instead = new Map(named.flat());
      return apart.calls.map((each, i) => instead.get(i) ?? each);
    };
    const token = (chosen: Chosen): Chain => new Chain(calls(chosen).slice(step));
    const encode = (pass: GPUComputePassEncoder): void => new Chain(apart.calls).encode(pass, 0, 1);
    const made = await gpuTimer(open, encode, LIMIT_MS);
    const timer = restingTimer(made, this.#runs.rest);
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
      made.dispose();
      for (const [, each] of bound.flat()) each.dispose();
    }
  }

  /** Runs that are under way go on with them from their next submission on. */
  async #adopt({ found, program, calls }: Prepared): Promise<void> {
    const { plan } = this.#decoder;
    const { workload } = found;
    const bound = await plan.open.scoped(
      () => new Map(calls.map((i) => [i, plan.buffers.boundWhole(i, program)])),
      LIMIT_MS,
    );
    const running = this.#ofCalls(calls);
    const before = this.#before.get(workload) ?? running;
    if (before !== running) void this.#runs.release(running);
    this.#before.set(workload, before);
    this.#decoder.replace(bound);
  }

  #ofCalls(calls: readonly number[]): ReadonlyMap<number, BoundCall> {
    return new Map(calls.map((i) => [i, this.#decoder.calls[i] as BoundCall]));
  }
}

/** Tokens to a sample. */
async function tokensOf(timer: GpuTimer, token: Chain): Promise<number> {
  const shape = { calls: 1, passes: 1 };
  const tokenMs = (await gpuSampleNs(timer, token, shape, now() + LIMIT_MS)) / 1e6;
  return Math.max(1, Math.min(MOST_TOKENS, Math.floor(SAMPLE_MS / tokenMs)));
}
