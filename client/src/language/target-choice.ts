/** Chooses what a language model runs on: the GPU where there is one, else WebAssembly. */
import { KernelZooError } from "../engine/error.js";
import { align, productOf } from "../engine/tensors.js";
import type { CompileWait } from "../model/compile-wait.js";
import type { Host } from "../model/host.js";
import { type Answered, requestModel } from "../model/request.js";
import { compiled } from "../model/runtime.js";
import type { Gpu } from "../sdk/backend.js";
import {
  type DecoderWire,
  type ModelAnswer,
  type PlanTensor,
  type PlanWire,
  targetOf,
} from "../wire/model-answer.js";
import type { MeasuredTarget } from "../wire/types.js";
import { WORKERS } from "../workers.js";

/**
 * States are counted as activations are, so that they are reserved before anything is fetched. In the
 * one memory of WebAssembly they lie behind them.
 */
export function withStates(plan: PlanWire, target: MeasuredTarget): PlanWire {
  let end = plan.memory.activations;
  const places = (plan.states ?? []).map(({ dtype, shape }) => {
    const at = align(end);
    end = at + (dtype === "f16" ? 2 : 4) * productOf(shape);
    return at;
  });
  const inMemory = ({ state, ...tensor }: PlanTensor): PlanTensor =>
    state === undefined ? tensor : { ...tensor, at: places[state] as number };
  const tensors = target === "wasm" ? plan.tensors.map(inMemory) : plan.tensors;
  return { ...plan, tensors, memory: { ...plan.memory, activations: end } };
}

/** Language models are not compiled to JavaScript. */
export const measuredTargetOf = (answer: ModelAnswer): MeasuredTarget =>
  targetOf(answer) === "webgpu" ? "webgpu" : "wasm";

/**
 * Sums the nanoseconds that a block of the prompt and as many tokens take; NaN where a call of them
 * was not timed.
 */
function runNs({ plan, kernels }: ModelAnswer): number {
  const { step, rows } = plan.decoder as DecoderWire;
  return plan.calls.reduce((sum, { kernel }, i) => {
    const timing = kernels[plan.kernels[kernel] as string]?.timing;
    return sum + (i < step ? 1 : rows) * (timing?.best_ns ?? Number.NaN);
  }, 0);
}

/**
 * Returns why a page that leaves the choice to the zoo had better not use this GPU; null where it
 * may.
 */
async function whyNot(gpu: Gpu, onGpu: ModelAnswer, onWasm: ModelAnswer): Promise<string | null> {
  if ((await gpu.owner.device()).isSoftware) return "The browser has no GPU: a processor plays it.";
  const slower = runNs(onGpu) > runNs(onWasm);
  return slower ? "Devices like this one were measured to be faster on WebAssembly." : null;
}

/** Asks for plans of one language model. */
export class Targets {
  readonly #host: Host;
  readonly #waiting: CompileWait;
  readonly #name: string;
  /** True while the GPU is asked for. */
  #gpu: boolean;

  constructor(host: Host, name: string, waiting: CompileWait) {
    this.#host = host;
    this.#waiting = waiting;
    this.#name = name;
    this.#gpu = host.gpu.kind === "gpu";
  }

  /**
   * Asks for the plan for so many tokens, or for the one that the zoo has first where that is
   * undefined. Where the zoo has none for the GPU, or that fails for good, or the page leaves the
   * choice to the zoo and the GPU is slower, WebAssembly takes its place, for this plan and those
   * after it. Throws KernelZooError.
   */
  async planned(context: number | undefined): Promise<Answered> {
    const { gpu, backend } = this.#host;
    if (!this.#gpu || gpu.kind === "none") {
      const reason = gpu.kind === "none" ? gpu.reason : null;
      return this.taken({ ...(await this.#onWasm(context)), reason });
    }
    const other = backend === "auto" ? this.#onWasm(context).catch(() => null) : null;
    const spare = async (): Promise<Answered> => this.taken(await this.#onWasm(context));
    try {
      const onGpu = await this.#answered(gpu.deviceClass, context);
      const wasm = await other;
      const reason = wasm && (await whyNot(gpu, onGpu.answer, wasm.answer));
      return this.taken(wasm && reason ? { ...wasm, reason } : { ...onGpu, spare });
    } catch (thrown) {
      const { message: reason } = thrown as Error;
      const onWasm = await spare().catch(() => {
        throw thrown;
      });
      return { ...onWasm, reason };
    }
  }

  /** A file may be for a GPU, which it says itself. */
  async #onWasm(context: number | undefined): Promise<Answered> {
    const { deviceClass, forbidden } = this.#host;
    if (forbidden !== null) {
      const why = `Language models run on WebGPU or WebAssembly: ${forbidden}`;
      throw new KernelZooError("profile", why);
    }
    return this.#answered(deviceClass, context);
  }

  /** Notes an answer that is run: one on WebAssembly takes the place of the GPU from now on. */
  taken(answered: Answered): Answered {
    this.#gpu &&= measuredTargetOf(answered.answer) === "webgpu";
    return answered;
  }

  async #answered(deviceClass: string, context: number | undefined): Promise<Answered> {
    // The worker that most likely runs the answer is fetched while that is on its way.
    WORKERS.decoder[this.#gpu ? "webgpu" : "wasm"]().catch(() => undefined);
    const asked = { ...this.#host, deviceClass, states: true } as const;
    const dimensions = context === undefined ? {} : { context };
    const ask = () => requestModel(asked, this.#name, dimensions);
    const answered = await compiled(this.#host, await ask(), ask, this.#waiting);
    const { plan } = answered.answer;
    if (plan.decoder === undefined) {
      const text = `${this.#name} is no language model; open it by zoo.model().`;
      throw new KernelZooError("manifest", text);
    }
    const target = measuredTargetOf(answered.answer);
    return { ...answered, answer: { ...answered.answer, plan: withStates(plan, target) } };
  }
}
