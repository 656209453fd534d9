/** What a language model runs on: the GPU where there is one, else WebAssembly. */
import type { ModelAnswer, PlanTensor, PlanWire } from "../runtime/answer.js";
import type { Host } from "../runtime/host.js";
import type { Answered, requestModel } from "../runtime/request.js";
import type { TargetKind } from "../wire/types.js";
import gpuSource from "./worker.js?inlined";

/** A cache line: where activations of a plan begin, too. */
const ALIGNMENT = 64;

/**
 * States are counted as activations are, so that they are reserved before anything is fetched. In the
 * one memory of WebAssembly they lie behind them.
 */
export function withStates(plan: PlanWire, target: TargetKind): PlanWire {
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
const targetOf = ({ device_class }: ModelAnswer): TargetKind =>
  device_class.includes(":webgpu") ? "webgpu" : "wasm";

/** Asks for plans of one language model, and says which worker runs them. */
export class Targets {
  readonly #host: Host;
  readonly #request: typeof requestModel;
  readonly #name: string;
  /** Whether the GPU is asked for. */
  #gpu: boolean;
  /** The text of the worker that runs what was answered last. */
  source = gpuSource;

  constructor(host: Host, request: typeof requestModel, name: string) {
    this.#host = host;
    this.#request = request;
    this.#name = name;
    this.#gpu = host.gpu.kind === "gpu";
  }

  /** Whether that is the worker of models on a GPU. */
  get isOnGpu(): boolean {
    return this.source === gpuSource;
  }

  /**
   * The plan for so many tokens; for what there is where that is undefined. A GPU that fails for good
   * is replaced by WebAssembly, for this plan and those after it. Throws KernelZooError.
   */
  async planned(context: number | undefined): Promise<Answered> {
    const { gpu } = this.#host;
    if (!this.#gpu || gpu.kind === "none") {
      const reason = gpu.kind === "none" ? gpu.reason : null;
      return { ...(await this.#answered(this.#host.deviceClass, context)), reason };
    }
    const answered = await this.#answered(gpu.deviceClass, context);
    const spare = (): Promise<Answered> => {
      this.#gpu = false;
      return this.planned(context);
    };
    return { ...answered, spare };
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
    // A file says itself what it is for.
    const target = targetOf(answered.answer);
    if (missing[0] !== undefined) {
      const text = `The zoo has no kernel of ${target} for ${missing[0]} yet. Try again in a few seconds.`;
      throw new KernelZooError("manifest", text);
    }
    if (target === "wasm") this.source = (await import("./wasm/source.js")).source;
    return { ...answered, answer: { ...answered.answer, plan: withStates(plan, target) } };
  }
}
