/**
 * A language model on WebAssembly. Its token, place and cache lie among the activations, and its
 * calls are those of any plan, of which each run takes a part.
 */
import type { Dispatcher } from "../../backend/wasm/dispatch.js";
import { loadOnWasm, type WasmExecutor, type WasmPorts } from "../../backend/wasm/executor.js";
import { productOf, viewOf } from "../../engine/tensors.js";
import {
  type Executor,
  type ExecutorPorts,
  type RunResult,
  untimed,
} from "../../executor/executor.js";
import type { Stored } from "../../executor/golden-tensors.js";
import type { Loaded, LoadOrder } from "../../executor/messages.js";
import { checked } from "../../executor/output-check.js";
import type { DecoderWire, EncoderWire, PlanTensor, PlanWire } from "../../wire/model-answer.js";
import { beamSearch } from "../beam-search.js";
import {
  type DecodeOrder,
  goldenOrder,
  readOrder,
  type Sampling,
  type SourceFeed,
} from "../decode-order.js";
import { Adjustment } from "./adjuster.js";
import { BeamCaches } from "./beam-caches.js";
import { drawn, likeliest } from "./sampler.js";

/**
 * Up to this share of a block's tokens take less one by one: of SmolLM-135M a block of 128 took as
 * long as 70 tokens on one thread (2026-11-23, before its kernels were tuned).
 */
const FEW = 1 / 3;

/** Owns the memory of one language model. It ends with its worker. */
export class WasmDecoder implements Executor {
  readonly order: LoadOrder;
  readonly loaded: Loaded;
  readonly stored: Promise<void>;
  readonly #steps: DecoderSteps;

  constructor(executor: WasmExecutor) {
    const { memory, placement, dispatcher, order } = executor;
    this.#steps = new DecoderSteps(
      order.answer.plan,
      memory,
      placement.activations,
      dispatcher,
      () => executor.crew?.up(),
    );
    this.order = order;
    this.loaded = executor.loaded;
    this.stored = executor.stored;
  }

  /** Throws KernelZooError as the load of an engine. */
  static async load(order: LoadOrder, ports: WasmPorts): Promise<WasmDecoder> {
    return new WasmDecoder(await loadOnWasm(order, ports));
  }

  /**
   * The tokens that `feeds`, a `DecodeOrder`, ask for, and the last logits; null where `aborted` said
   * to stop. Throws WrongKernel; then it may be asked for again.
   */
  async run(feeds: readonly Stored[], aborted: () => boolean): Promise<RunResult | null> {
    const steps = this.#steps;
    const before = steps.place;
    try {
      return await steps.ran(readOrder(feeds), aborted);
    } catch (thrown) {
      // What was written to the cache behind it is written again before it is read.
      steps.place = before;
      throw thrown;
    }
  }

  /** Compares the logits behind the golden prompt. Throws as the `check` of a model. */
  check(ports: Pick<ExecutorPorts, "progress">, aborted: () => boolean): Promise<boolean> {
    const run = async (feeds: readonly Stored[]): Promise<RunResult | null> => {
      const outputs = await this.#steps.golden(feeds, aborted);
      return outputs && { outputs, times: untimed() };
    };
    return checked(this.order, run, ports);
  }
}

/** Tokens of a plan whose activations, with its cache, lie anywhere in a memory. */
export class DecoderSteps {
  readonly #plan: PlanWire;
  readonly #memory: WebAssembly.Memory;
  readonly #activations: number;
  readonly #dispatcher: Dispatcher;
  readonly #wake: () => void;
  readonly #decoder: DecoderWire;
  /** The call that goes on to the next place. */
  readonly #last: number;
  /** Belongs to the text that was begun last, where its logits are adjusted. */
  #adjustment: Adjustment | null = null;

  /** `wake` is called before calls run. */
  constructor(
    plan: PlanWire,
    memory: WebAssembly.Memory,
    activations: number,
    dispatcher: Dispatcher,
    wake: () => void = () => undefined,
  ) {
    this.#plan = plan;
    this.#memory = memory;
    this.#activations = activations;
    this.#dispatcher = dispatcher;
    this.#wake = wake;
    this.#decoder = plan.decoder as DecoderWire;
    this.#last = plan.calls.length - 1;
  }

  /** The token that is next, and the words of its place. */
  get place(): readonly [token: number, position: readonly number[]] {
    return [this.#at("token")[0] as number, [...this.#at("position")]];
  }

  set place([token, position]: readonly [number, readonly number[]]) {
    this.#at("token")[0] = token;
    this.#at("position").set(position);
  }

  /** The logits behind the golden prompt, of which `feeds` are the plan's; null where it was aborted. */
  async golden(
    feeds: readonly Stored[],
    aborted: () => boolean,
  ): Promise<readonly Stored[] | null> {
    const ran = await this.ran(goldenOrder(feeds), aborted);
    return ran === null ? null : ran.outputs.slice(1);
  }

  /** The tokens that an order asks for, as `run` of a model. */
  async ran(order: DecodeOrder, aborted: () => boolean): Promise<RunResult | null> {
    const { place, prompt, tokens, sampling, logits, source, beams } = order;
    if (source !== null && !(await this.#encode(source, aborted))) return null;
    if (place !== null) {
      if (!(await this.#prefill(place, prompt, aborted))) return null;
      const first = place + prompt.length;
      this.#adjustment = order.adjusted ? new Adjustment(order.known, first) : null;
    }
    if (beams !== null) {
      const text = await this.#likeliestText(order, beams.count, aborted);
      return text && { outputs: [text, new Float32Array(0)], times: untimed() };
    }
    const chosen = new Int32Array(tokens);
    for (let index = 0; index < tokens; index++) {
      if (!(await this.#step(sampling, aborted))) return null;
      chosen[index] = this.#at("token")[0] as number;
    }
    const last = Float32Array.from(logits ? this.#at("logits") : []);
    return { outputs: [chosen, last], times: untimed() };
  }

  /** Has the encoder read a source; false where it was aborted. */
  #encode({ entries, spare }: SourceFeed, aborted: () => boolean): Promise<boolean> {
    const { encoder, step } = this.#decoder as DecoderWire & { readonly encoder: EncoderWire };
    this.#entries(encoder.source).fill(0).set(entries);
    this.#entries(encoder.spare)[0] = spare;
    return this.#calls(0, step, aborted);
  }

  /** The tokens that `beamSearch` finds behind a prompt whose last token is next; null where aborted. */
  #likeliestText(
    order: DecodeOrder,
    count: number,
    aborted: () => boolean,
  ): Promise<Int32Array<ArrayBuffer> | null> {
    const { encoder, length, step, head } = this.#decoder;
    const states = (encoder?.cache ?? []).map((index) => {
      const { shape } = this.#plan.tensors[index] as PlanTensor;
      return { entries: this.#entries(index) as Float32Array, width: shape.at(-1) as number };
    });
    const caches = new BeamCaches(states, length, count);
    const [, [first = 0]] = this.place;
    caches.save(0, 0, first);
    return beamSearch(order, {
      logits: async (slot, token, place) => {
        caches.load(slot, place);
        this.place = [token, [place, place + 1, 0, 0]];
        if (!(await this.#calls(step, head + 1, aborted))) return null;
        caches.save(slot, place, place + 1);
        return this.#at("logits") as Float32Array;
      },
      copy: (from, to, places) => caches.copy(from, to, places),
    });
  }

  /** All tokens of a prompt but the last, without the head; false where it was aborted. */
  async #prefill(
    place: number,
    prompt: readonly number[],
    aborted: () => boolean,
  ): Promise<boolean> {
    const { rows, step, head, encoder } = this.#decoder;
    const end = place + prompt.length;
    this.#at("prompt").set(prompt, place);
    this.#at("position").set([place, end, 0, 0]);
    this.#at("token").set(prompt.slice(0, 1));
    for (let here = place; here < end - 1; ) {
      const left = end - 1 - here;
      const isBlock = encoder === undefined && left > FEW * rows;
      const ran = isBlock
        ? await this.#calls(0, step, aborted)
        : (await this.#calls(step, head, aborted)) && (await this.#advance(aborted));
      if (!ran) return false;
      here += isBlock ? Math.min(rows, left) : 1;
    }
    return true;
  }

  /** One token with its head; false where it was aborted. */
  async #step(sampling: Sampling, aborted: () => boolean): Promise<boolean> {
    const { step, head } = this.#decoder;
    const isGreedy = sampling.temperature === 0;
    const adjustment = this.#adjustment;
    if (isGreedy && adjustment === null) return this.#calls(step, this.#last + 1, aborted);
    // What is chosen here stands in the place of the likeliest.
    if (!(await this.#calls(step, head + 1, aborted))) return false;
    const place = this.#at("position")[0] as number;
    const logits = this.#at("logits") as Float32Array;
    adjustment?.adjust(logits, place + 1, sampling);
    const token = isGreedy ? likeliest(logits) : drawn(logits, place, sampling);
    adjustment?.note(token, place + 1);
    this.#at("chosen")[0] = token;
    return this.#advance(aborted);
  }

  #advance(aborted: () => boolean): Promise<boolean> {
    return this.#calls(this.#last, this.#last + 1, aborted);
  }

  /** False where it was aborted. */
  async #calls(from: number, to: number, aborted: () => boolean): Promise<boolean> {
    this.#wake();
    return (await this.#dispatcher.run(aborted, from, to)) !== null;
  }

  /** The entries of one of the decoder's tensors, in memory. */
  #at(name: "token" | "position" | "prompt" | "logits" | "chosen"): Float32Array | Int32Array {
    return this.#entries(this.#decoder[name]);
  }

  #entries(index: number): Float32Array | Int32Array {
    const { dtype, shape, at = 0 } = this.#plan.tensors[index] as PlanTensor;
    const view = viewOf(this.#memory.buffer, dtype, this.#activations + at, productOf(shape));
    return view as Float32Array | Int32Array;
  }
}
