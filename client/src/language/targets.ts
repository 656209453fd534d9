/** What a language model runs on: the GPU where there is one, else WebAssembly. */
import type { ModelAnswer, PlanTensor, PlanWire } from "../runtime/answer.js";
import type { Host } from "../runtime/host.js";
import type { Answered, requestModel } from "../runtime/request.js";
import type { MeasuredTarget } from "../wire/types.js";
import gpuSource from "./worker.js?inlined";

/** A cache line: where activations of a plan begin, too. */
const ALIGNMENT = 64;

/**
 * States are counted as activations are, so that they are reserved before anything is fetched. In the
 * one memory of WebAssembly they lie behind them.
 */
export function withStates(plan: PlanWire, target: MeasuredTarget): PlanWire {
  let end = plan.memory.activations;
  const places = (plan.states ?? []).map(({ dtype, shape }) => {
    const at = Math.ceil(end / ALIGNMENT) * ALIGNMENT;
    const entryBytes = dtype === "f16" ? 2 : Float32Array.BYTES_PER_ELEMENT;
    end = shape.reduce((bytes, extent) => bytes * extent, entryBytes) + at;
    return at;
  });
  const inMemory = ({ state, ...tensor }: PlanTensor): PlanTensor =>
    state === undefined ? tensor : { ...tensor, at: places[state] as number };
  const tensors = target === "wasm" ? plan.tensors.map(inMemory) : plan.tensors;
  return { ...plan, tensors, memory: { ...plan.memory, activations: end } };
}

// The runtime's own would be in a file that both load.
export const targetOf = ({ device_class }: ModelAnswer): MeasuredTarget =>
  device_class.includes(":webgpu") ? "webgpu" : "wasm";

/** Asks for plans of one language model, and says which worker runs them. */
export class Targets {
  readonly #host: Host;
  readonly #request: typeof requestModel;
  readonly #name: string;
  /** Whether the GPU is asked for. */
  #gpu: boolean;
  /** The text of the worker of WebAssembly, once that is answered. */
  #wasmSource = "";

  constructor(host: Host, request: typeof requestModel, name: string) {
    this.#host = host;
    this.#request = request;
    this.#name = name;
    this.#gpu = host.gpu.kind === "gpu";
  }

  /** The text of the worker that runs an answer. */
  sourceOf(answer: ModelAnswer): string {
    return targetOf(answer) === "wasm" ? this.#wasmSource : gpuSource;
  }

  /**
   * The plan for so many tokens; for what there is where that is undefined. Where the zoo has none for
   * the GPU, or that fails for good, WebAssembly takes its place, for this plan and those after it.
   * Throws KernelZooError.
   */
  async planned(context: number | undefined): Promise<Answered> {
    const { gpu } = this.#host;
    if (!this.#gpu || gpu.kind === "none") {
      const reason = gpu.kind === "none" ? gpu.reason : null;
      return { ...(await this.#onWasm(context)), reason };
    }
    const spare = (): Promise<Answered> => this.#onWasm(context);
    try {
      return { ...(await this.#answered(gpu.deviceClass, context)), spare };
    } catch (thrown) {
      const { message: reason } = thrown as Error;
      const found = await spare().catch(() => {
        throw thrown;
      });
      return { ...found, reason };
    }
  }

  /** A file may be for a GPU, which it says itself. */
  async #onWasm(context: number | undefined): Promise<Answered> {
    const { deviceClass, forbidden, tools } = this.#host;
    if (forbidden !== null) {
      const why = `Language models run on WebGPU or WebAssembly: ${forbidden}`;
      throw new tools.KernelZooError("profile", why);
    }
    const answered = await this.#answered(deviceClass, context);
    if (targetOf(answered.answer) === "wasm") {
      this.#wasmSource = (await import("./wasm/source.js")).source;
    }
    this.#gpu = false;
    return answered;
  }

  async #answered(deviceClass: string, context: number | undefined): Promise<Answered> {
    const { KernelZooError } = this.#host.tools;
    const asked = { ...this.#host, deviceClass, format: 2 } as const;
    const dimensions = context === undefined ? {} : { context };
    const answered = await this.#request(asked, this.#name, dimensions);
    const { plan, missing } = answered.answer;
    if (plan.decoder === undefined) {
      const text = `${this.#name} is no language model; open it by zoo.model().`;
      throw new KernelZooError("manifest", text);
    }
    const target = targetOf(answered.answer);
    if (missing[0] !== undefined) {
      const text = `The zoo has no kernel of ${target} for ${missing[0]} yet. Try again in a few seconds.`;
      throw new KernelZooError("manifest", text);
    }
    return { ...answered, answer: { ...answered.answer, plan: withStates(plan, target) } };
  }
}
