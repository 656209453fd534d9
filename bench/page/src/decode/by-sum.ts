/**
 * Chooses, of the kernels of a decoder that are fast alone, those that make a token and a prompt's
 * block fastest.
 */
import type { BoundCall } from "../../../../client/src/backend/webgpu/binding.js";
import { noActivity } from "../../../../client/src/backend/webgpu/clock.js";
import { Chain } from "../../../../client/src/backend/webgpu/plan-loader.js";
import { type GpuTimer, gpuTimer } from "../../../../client/src/backend/webgpu/timer.js";
import { loadWholeProgram } from "../../../../client/src/backend/webgpu/whole-program.js";
import { GpuDecoder } from "../../../../client/src/language/webgpu/decoder.js";
import { now } from "../../../../client/src/timing/clock.js";
import {
  type Chosen,
  type Contested,
  chosenBySum,
  type Pair,
  type Trial,
} from "../../../../client/src/tuning/sum-choice.js";
import { pairsOf, searched } from "../../../../client/src/tuning/webgpu/whole-times.js";
import type { DecoderWire, ModelAnswer } from "../../../../client/src/wire/model-answer.js";
import type { KernelWire } from "../../../../client/src/wire/types.js";
import { served, type Times } from "../models/tuned.js";
import type { DecoderRequest } from "./request.js";

const LIMIT_MS = 20_000;
/** Tokens, or blocks, in one sample. */
const TOKENS = 16;
const BLOCKS = 2;

/** A part of the plan that is timed as a whole. */
interface Whole {
  readonly from: number;
  readonly to: number;
  readonly times: number;
  /** The place at which it is timed, for a text of so many tokens. */
  readonly place: (context: number) => number;
}

class WholeTimer {
  readonly #asked: DecoderRequest;
  readonly #url: URL;
  readonly #answer: ModelAnswer;
  readonly #decoder: GpuDecoder;
  readonly #timer: GpuTimer;
  readonly #activity = noActivity();
  /** Calls of a workload bound to a candidate's program, by both. */
  readonly #bound = new Map<string, Promise<ReadonlyMap<number, BoundCall>>>();

  private constructor(
    asked: DecoderRequest,
    url: URL,
    answer: ModelAnswer,
    decoder: GpuDecoder,
    timer: GpuTimer,
  ) {
    [this.#asked, this.#url, this.#answer] = [asked, url, answer];
    [this.#decoder, this.#timer] = [decoder, timer];
  }

  static async load(asked: DecoderRequest): Promise<WholeTimer> {
    const url = new URL(asked.zoo, document.baseURI);
    const answer = (await (await fetch(url)).json()) as ModelAnswer;
    const order = { answer, origin: url.href, threads: 1, check: false, graph: null, replaced: [] };
    const decoder = await GpuDecoder.load(order, { progress: () => undefined });
    await decoder.stored;
    const token = new Chain(decoder.calls.slice((answer.plan.decoder as DecoderWire).step));
    const encode = (pass: GPUComputePassEncoder): void => token.encode(pass);
    const timer = await gpuTimer(decoder.plan.open, encode, LIMIT_MS);
    return new WholeTimer(asked, url, answer, decoder, timer);
  }

  get wholes(): readonly Whole[] {
    const { step, rows } = this.#answer.plan.decoder as DecoderWire;
    const calls = this.#answer.plan.calls.length;
    const before = (context: number): number => Math.max(0, context - rows);
    return [
      { from: step, to: calls, times: TOKENS, place: (context) => context },
      { from: 0, to: step, times: BLOCKS, place: before },
    ];
  }

  /** The workloads of a whole with what their candidates took alone. */
  contested({ from, to }: Whole, times: Times): readonly Contested[] {
    const calls = new Map<string, number>();
    for (let i = from; i < to; i++) {
      calls.set(this.#workload(i), (calls.get(this.#workload(i)) ?? 0) + 1);
    }
    return [...calls].map(([workload, count]) => ({
      workload,
      calls: count,
      alone: (times[workload] ?? []).filter(([, ns]) => Number.isFinite(ns)),
    }));
  }

  /** Sums over the contexts, of both choices in turns. */
  async pairs(whole: Whole, { chosen, instead }: Trial): Promise<readonly Pair[]> {
    const chains = [await this.#chain(whole, chosen), await this.#chain(whole, instead)] as const;
    return pairsOf(this.#timer, this.#activity, chains, {
      calls: whole.times,
      places: this.#asked.contexts.map(whole.place),
      goTo: (place) => this.#decoder.goTo(place),
    });
  }

  kernel(workload: string, candidate: string): KernelWire {
    const space = this.#asked.spaces[workload] ?? [];
    return space.find((each) => each.candidate === candidate) as KernelWire;
  }

  dispose(): void {
    this.#timer.dispose();
    this.#decoder.plan.open.device.destroy();
  }

  #workload(call: number): string {
    const { calls, kernels } = this.#answer.plan;
    return kernels[calls[call]?.kernel as number] as string;
  }

  async #chain({ from, to }: Whole, chosen: Chosen): Promise<Chain> {
    const bound = new Map<number, BoundCall>();
    for (const [workload, candidate] of chosen) {
      for (const [call, each] of await this.#calls(workload, candidate)) bound.set(call, each);
    }
    const all = this.#decoder.calls.map((each, i) => bound.get(i) ?? each);
    return new Chain(all.slice(from, to));
  }

  #calls(workload: string, candidate: string): Promise<ReadonlyMap<number, BoundCall>> {
    const key = `${workload} ${candidate}`;
    const made = this.#bound.get(key) ?? this.#bind(workload, this.kernel(workload, candidate));
    this.#bound.set(key, made);
    return made;
  }

  async #bind(workload: string, kernel: KernelWire): Promise<ReadonlyMap<number, BoundCall>> {
    const { open, buffers } = this.#decoder.plan;
    const program = await loadWholeProgram(open, this.#url, kernel);
    const calls = [...this.#answer.plan.calls.keys()].filter((i) => this.#workload(i) === workload);
    return new Map(calls.map((i) => [i, buffers.boundWhole(i, program)] as const));
  }
}

/**
 * From then on `fetch` answers with the kernels that make a token, and a block of a prompt, fastest.
 * The workloads whose kernels are not those that were fastest alone.
 */
export async function chosenInDecoder(
  asked: DecoderRequest,
  times: Times,
  forMs: number,
): Promise<readonly string[]> {
  const timer = await WholeTimer.load(asked);
  const kernels: Record<string, KernelWire> = {};
  const changed: string[] = [];
  const until = now() + forMs;
  try {
    for (const whole of timer.wholes) {
      const search = chosenBySum(timer.contested(whole, times));
      const { first, chosen } = await searched(search, (trial) => timer.pairs(whole, trial), until);
      for (const [workload, candidate] of chosen) {
        kernels[workload] = timer.kernel(workload, candidate);
        if (first.get(workload) !== candidate) changed.push(workload);
      }
    }
  } finally {
    timer.dispose();
  }
  await served(asked.zoo, kernels);
  return changed;
}
