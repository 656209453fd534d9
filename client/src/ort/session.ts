/** A session as onnxruntime-web has it, on the zoo's kernels where it can be. */
import type { InferenceSession as Common, Tensor } from "onnxruntime-common";
import { sentence } from "../engine/error.js";
import { KernelZooError } from "../sdk/index.js";
import { createArguments, runArguments } from "./arguments.js";
import { env, namesZoo } from "./env.js";
import { onnxruntimeSession, taken } from "./onnxruntime.js";
import { downloaded, ZooSession } from "./zoo-session.js";

/** Tells what runs a session, as of its last run. */
export interface SessionEngine {
  readonly engine: "kernelzoo" | "onnxruntime-web";
  /** The name of the zoo's model; null where the zoo has none. */
  readonly model: string | null;
  /** The reason why it is onnxruntime-web; null where it is not. */
  readonly why: string | null;
}

const reasons = new Set<string>();

/** Tells the console once of each reason. */
function tell(why: string): void {
  if (reasons.has(why)) return;
  reasons.add(why);
  console.warn(`kernelzoo: onnxruntime-web runs a model. ${why}`);
}

export class InferenceSession implements Common {
  readonly #zoo: ZooSession | null;
  readonly #create: () => Promise<Common>;
  #real: Promise<Common> | undefined;
  /** The real session, once it is there: it has the names then. */
  #shown: Common | undefined;
  /** True once the zoo's model has failed, and not for what a run fed it. */
  #failed = false;
  #released = false;
  #engine: SessionEngine;

  private constructor(zoo: ZooSession | null, create: () => Promise<Common>) {
    this.#zoo = zoo;
    this.#create = create;
    this.#engine = { engine: "kernelzoo", model: zoo?.name ?? null, why: null };
  }

  /** Takes what `create` of onnxruntime-web takes. Rejects as that does for a file that is none. */
  static create(
    model: string | ArrayBufferLike | Uint8Array,
    options?: Common.SessionOptions,
  ): Promise<InferenceSession>;
  static create(
    buffer: ArrayBufferLike,
    byteOffset: number,
    byteLength?: number,
    options?: Common.SessionOptions,
  ): Promise<InferenceSession>;
  static async create(model: unknown, ...given: readonly unknown[]): Promise<InferenceSession> {
    const { source, options } = createArguments(model, given);
    let bytes: Uint8Array | undefined;
    const create = () => onnxruntimeSession(bytes ?? source, options);
    try {
      const settings = env.kernelzoo;
      if (!namesZoo(settings)) throw new Error("env.kernelzoo names no zoo.");
      // They are kept with the session for onnxruntime-web.
      bytes = typeof source === "string" ? await downloaded(source) : source;
      const zoo = await ZooSession.open(settings, bytes, options, env.wasm.numThreads);
      return new InferenceSession(zoo, create);
    } catch (thrown) {
      const session = new InferenceSession(null, create);
      await session.#fallBack(thrown);
      return session;
    }
  }

  /** Tells what runs the session, and why. */
  get kernelzoo(): SessionEngine {
    return this.#engine;
  }

  get inputNames(): readonly string[] {
    return this.#shown?.inputNames ?? this.inputMetadata.map(({ name }) => name);
  }

  get outputNames(): readonly string[] {
    return this.#shown?.outputNames ?? this.outputMetadata.map(({ name }) => name);
  }

  get inputMetadata(): readonly Common.ValueMetadata[] {
    return this.#shown?.inputMetadata ?? this.#zoo?.ports.inputs ?? [];
  }

  get outputMetadata(): readonly Common.ValueMetadata[] {
    return this.#shown?.outputMetadata ?? this.#zoo?.ports.outputs ?? [];
  }

  run(feeds: Common.FeedsType, options?: Common.RunOptions): Promise<Common.ReturnType>;
  run(
    feeds: Common.FeedsType,
    fetches: Common.FetchesType,
    options?: Common.RunOptions,
  ): Promise<Common.ReturnType>;
  async run(feeds: Common.FeedsType, ...given: readonly unknown[]): Promise<Common.ReturnType> {
    if (this.#released) throw new Error("The session was released. Create it again.");
    const { fetches, options } = runArguments(this, feeds, given);
    const zoo = this.#failed ? null : this.#zoo;
    if (zoo !== null) {
      try {
        const outputs = await zoo.run(feeds, fetches);
        this.#engine = { engine: "kernelzoo", model: zoo.name, why: null };
        return outputs;
      } catch (thrown) {
        if (thrown instanceof KernelZooError && thrown.stage !== "run") {
          this.#failed = true;
          await zoo.release();
        }
        await this.#fallBack(thrown);
      }
    }
    return this.#runReal(feeds, fetches, options);
  }

  async release(): Promise<void> {
    this.#released = true;
    await this.#zoo?.release();
    await (await this.#real)?.release();
  }

  /** Profiles are onnxruntime-web's: while the zoo runs the session, there is none. */
  startProfiling(): void {
    this.#shown?.startProfiling();
  }

  endProfiling(): void {
    this.#shown?.endProfiling();
  }

  /** Has onnxruntime-web run what the zoo does not. Rejects where that cannot. */
  async #fallBack(thrown: unknown): Promise<void> {
    const why = sentence(thrown);
    this.#engine = { engine: "onnxruntime-web", model: this.#zoo?.name ?? null, why };
    tell(why);
    this.#real ??= this.#create();
    try {
      const real = await this.#real;
      if (this.#zoo === null) this.#shown = real;
    } catch (cause) {
      this.#real = undefined;
      throw cause;
    }
  }

  async #runReal(
    feeds: Common.FeedsType,
    fetches: Readonly<Record<string, Tensor | null>>,
    options: Common.RunOptions,
  ): Promise<Common.ReturnType> {
    const real = (await this.#real) as Common;
    const outputs = await real.run(feeds, Object.keys(fetches), options);
    const all = Object.entries(outputs).map(([name, output]) => {
      const into = fetches[name];
      if (into?.location !== "cpu" || output.location !== "cpu") return [name, taken(output)];
      (into.data as Float32Array).set(output.data as Float32Array);
      return [name, into];
    });
    return Object.fromEntries(all);
  }
}
