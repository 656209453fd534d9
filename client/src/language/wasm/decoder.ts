/**
 * A language model on WebAssembly. Its token, place and cache lie among the activations, and its
 * calls are those of any plan, of which each run takes a part.
 */
import { viewOf } from "../../engine/tensors.js";
import { type DecoderWire, type PlanTensor, productOf } from "../../runtime/answer.js";
import { checked, Engine, type EnginePorts, type RunResult } from "../../runtime/engine.js";
import type { Stored } from "../../runtime/golden.js";
import type { Loaded, LoadOrder } from "../../runtime/messages.js";
import { type DecodeOrder, goldenOrder, readOrder, type Sampling } from "../order.js";
import { drawn } from "./drawing.js";

/**
 * Up to this share of a block's tokens take less one by one: of SmolLM-135M a block of 128 took as
 * long as 70 tokens on one thread (2026-11-23, before its kernels were tuned).
 */
const FEW = 1 / 3;

/** Owns the memory of one language model. It ends with its worker. */
export class WasmDecoder {
  readonly loaded: Loaded;
  readonly stored: Promise<void>;
  readonly #engine: Engine;
  readonly #decoder: DecoderWire;
  /** The call that goes on to the next place. */
  readonly #last: number;

  private constructor(engine: Engine) {
    const { plan } = engine.order.answer;
    this.#engine = engine;
    this.#decoder = plan.decoder as DecoderWire;
    this.#last = plan.calls.length - 1;
    this.loaded = engine.loaded;
    this.stored = engine.stored;
  }

  /** Throws KernelZooError as the load of an engine. */
  static async load(order: LoadOrder, ports: EnginePorts): Promise<WasmDecoder> {
    return new WasmDecoder(await Engine.load(order, ports));
  }

  /**
   * The tokens that `feeds`, a `DecodeOrder`, ask for, and the last logits; null where `aborted` said
   * to stop. Throws WrongKernel.
   */
  run(feeds: readonly Stored[], aborted: () => boolean): Promise<RunResult | null> {
    return this.#ran(readOrder(feeds), aborted);
  }

  /** Compares the logits behind the golden prompt. Throws as the `check` of a model. */
  check(ports: EnginePorts, aborted: () => boolean): Promise<boolean> {
    const run = async (feeds: readonly Stored[]): Promise<RunResult | null> => {
      const ran = await this.#ran(goldenOrder(feeds), aborted);
      return ran && { ...ran, outputs: ran.outputs.slice(1) };
    };
    return checked(this.#engine.order, run, ports);
  }

  async #ran(order: DecodeOrder, aborted: () => boolean): Promise<RunResult | null> {
    const { place, prompt, tokens, sampling, logits } = order;
    if (place !== null && !(await this.#prefill(place, prompt, aborted))) return null;
    const found = new Int32Array(tokens);
    for (let index = 0; index < tokens; index++) {
      if (!(await this.#step(sampling, aborted))) return null;
      found[index] = this.#at("token")[0] as number;
    }
    const last = Float32Array.from(logits ? this.#at("logits") : []);
    return { outputs: [found, last], times: new Float64Array(0) };
  }

  /** All tokens of a prompt but the last, without the head; false where it was aborted. */
  async #prefill(
    place: number,
    prompt: readonly number[],
    aborted: () => boolean,
  ): Promise<boolean> {
    const { rows, step, head } = this.#decoder;
    const end = place + prompt.length;
    this.#at("prompt").set(prompt, place);
    this.#at("position").set([place, end, 0, 0]);
    this.#at("token").set(prompt.slice(0, 1));
    for (let here = place; here < end - 1; ) {
      const left = end - 1 - here;
      const isBlock = left > FEW * rows;
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
    if (sampling.temperature === 0) return this.#calls(step, this.#last + 1, aborted);
    // What is drawn stands in the place of the likeliest.
    if (!(await this.#calls(step, head + 1, aborted))) return false;
    const place = this.#at("position")[0] as number;
    this.#at("chosen")[0] = drawn(this.#at("logits") as Float32Array, place, sampling);
    return this.#advance(aborted);
  }

  #advance(aborted: () => boolean): Promise<boolean> {
    return this.#calls(this.#last, this.#last + 1, aborted);
  }

  /** False where it was aborted. */
  async #calls(from: number, to: number, aborted: () => boolean): Promise<boolean> {
    this.#engine.crew?.up();
    return (await this.#engine.dispatcher.run(aborted, from, to)) !== null;
  }

  /** The entries of one of the decoder's tensors, in memory. */
  #at(name: "token" | "position" | "prompt" | "logits" | "chosen"): Float32Array | Int32Array {
    const { memory, placement, order } = this.#engine;
    const { dtype, shape, at = 0 } = order.answer.plan.tensors[this.#decoder[name]] as PlanTensor;
    const view = viewOf(memory.buffer, dtype, placement.activations + at, productOf(shape));
    return view as Float32Array | Int32Array;
  }
}
