/** A network that runs on the zoo's kernels, in a worker of its own. */
import { KernelZooError } from "../engine/error.js";
import type { Stored } from "../executor/golden-tensors.js";
import { isShared } from "../executor/transferables.js";
import {
  type ClientRun,
  type Ran,
  type WorkerClient,
  WorkerFailure,
} from "../executor/worker-client.js";
import type { ModelTuning, TuningEvents } from "../tuning/page-view.js";
import type { Precision } from "../wire/model-answer.js";
import type { TargetKind } from "../wire/types.js";
import type { Branches } from "./branches.js";
import { copied, type Feed, Misfit, storedFeeds, type TensorData, tensorData } from "./feeds.js";
import { Listeners } from "./listeners.js";
import type { Opened, Opener } from "./opener.js";
import { type ModelTensor, type PlannedCall, plannedCalls } from "./planned-calls.js";
import type { Profile, ProfileOptions } from "./profile.js";
import type { Dimensions } from "./request.js";
import { ShortRuns } from "./short-runs.js";

/** Names and typed arrays, as `kernelzoo models types` writes them. */
export interface ModelTypes {
  readonly inputs: object;
  readonly outputs: object;
}

/** A model whose names are not known to TypeScript. */
export interface AnyModel extends ModelTypes {
  readonly inputs: Readonly<Record<string, TensorData>>;
  readonly outputs: Readonly<Record<string, TensorData>>;
}

/** The feeds of a model by the names of its inputs. */
export type FeedsOf<Types extends ModelTypes> = {
  readonly [Name in keyof Types["inputs"]]: Feed;
};

export interface StopOptions {
  /** Stops the run between two kernels; it rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

export interface RunOptions<Outputs = AnyModel["outputs"]> extends StopOptions {
  /**
   * Outputs of an earlier run that the page has done with: a model on the GPU writes new ones to their
   * memory, as fresh memory takes longer than large outputs. They are empty afterwards.
   */
  readonly into?: Outputs;
}

/** A precision that the model has plans of. */
export interface ComparedPrecision {
  readonly precision: Precision;
  /**
   * An inference on devices like this one, as far as its kernels are measured; null where none is, and
   * where there is no other to compare with.
   */
  readonly expectedMs: number | null;
  /** The share of its operations whose times are known. */
  readonly measured: number;
  /**
   * By how much golden outputs differ from those of f32, as a share of their largest magnitude; null
   * where the import took no fewer bits than the file has.
   */
  readonly error: number | null;
}

/** The plan by which a model runs here. */
export interface ModelPlan {
  readonly dimensions: Readonly<Record<string, number>>;
  readonly deviceClass: string;
  readonly target: TargetKind;
  /** The reason why it is not the target that was asked for; null where it is. */
  readonly targetReason: string | null;
  /** Its products multiply numbers of f32, or bytes; null where the zoo does not say. */
  readonly precision: Precision | null;
  /** The reason why it is that precision. */
  readonly precisionReason: string;
  /** The precisions that were compared. */
  readonly precisions: readonly ComparedPrecision[];
  /** The calls in the order in which they run. */
  readonly calls: readonly PlannedCall[];
  readonly memoryBytes: number;
  readonly threads: number;
  /** The reason why there is one thread although more were asked for; null otherwise. */
  readonly singleThreadReason: string | null;
}

/** A kernel that does not work here, in whose place the default runs. */
export interface Fallback {
  readonly workload: string;
  readonly reason: string;
}

/**
 * The events that a model tells of while it runs; swaps and regressions where it is tuned in the
 * page.
 */
export interface ModelEvents extends TuningEvents {
  /** Told of each kernel that does not work here. */
  readonly fallback: Fallback;
  /**
   * Told when the GPU fails that the model ran on, or a run of f16 leaves the numbers that f16 has; it
   * runs on WebAssembly, in f32, from then on.
   */
  readonly devicelost: { readonly reason: string | null };
}

/** Returns the error that a page is told of feeds that do not fit; any other error as it is. */
async function refusal(thrown: unknown): Promise<unknown> {
  if (!(thrown instanceof Misfit)) return thrown;
  const { misfitText } = await import("../sdk/refusals.js").catch(() => ({
    // A page that is offline by now.
    misfitText: ({ message }: Misfit) => message,
  }));
  return new KernelZooError("run", misfitText(thrown));
}

/** A page that runs a plan itself takes the memory of the plan once more. */
const MOST_COPIED_BYTES = 8 * 2 ** 20;

/** The time of a run, by that of its last call; no number where calls tell none. */
/** Returns whether the option `into` is left out, or an object of typed arrays. */
const areArrays = (into: unknown): boolean =>
  into === undefined ||
  (typeof into === "object" && into !== null && Object.values(into).every(ArrayBuffer.isView));

function elapsedMs({ times }: Ran): number {
  const [startMs = Number.NaN, callMs = 0] = times.slice(-3);
  return startMs + callMs;
}

export class Model<Types extends ModelTypes = AnyModel> {
  readonly name: string;
  readonly inputs: readonly ModelTensor[];
  readonly outputs: readonly ModelTensor[];
  /** The state of tuning in this page; undefined where it was not asked for. */
  tuning: ModelTuning | undefined;
  /**
   * Resolves when the device keeps the model under the key of `save`; rejects with KernelZooError
   * (storage). Undefined without `save`.
   */
  saved: Promise<void> | undefined;
  readonly #opener: Opener;
  readonly #listeners = new Listeners<ModelEvents>();
  readonly #best: number[];
  readonly #open: ((dimensions: Dimensions) => Promise<Model<Types>>) | undefined;
  /** Other plans of the model, once a feed has asked for one. */
  #branches: Branches<Types["outputs"], RunOptions<Types["outputs"]>> | undefined;
  /** Looks at runs of f16. */
  readonly #halves: Promise<typeof import("./f16-overflow.js")> | undefined;
  #opened: Promise<Opened>;
  #last: readonly Stored[] | null = null;
  /** Memory of feeds that the worker has read. Fresh memory takes longer than what is copied to it. */
  #spare: readonly Stored[] = [];
  #running = 0;
  #shown: Opened;
  /** Runs the model while it is not opened anew: its session, or the page itself. */
  #ready: (Pick<WorkerClient, "run"> & Partial<WorkerClient>) | undefined;
  #runs = 0;
  readonly #short = new ShortRuns();
  /** The session that the page has been asked to run the plan of itself. */
  #copied: WorkerClient | undefined;

  /** @internal With `open`, feeds may choose another plan of the model. */
  constructor(
    opener: Opener,
    opened: Opened,
    open?: (dimensions: Dimensions) => Promise<Model<Types>>,
  ) {
    const { answer } = opener;
    const tensor = ({ name, dtype, shape }: ModelTensor): ModelTensor => ({ name, dtype, shape });
    this.#opener = opener;
    this.#open = open;
    this.#halves = answer.plan.needs.includes("f16") ? import("./f16-overflow.js") : undefined;
    this.#opened = Promise.resolve(opened);
    this.#shown = opened;
    this.#ready = opened.session;
    this.name = answer.name;
    this.inputs = answer.plan.inputs.map(tensor);
    this.outputs = answer.plan.outputs.map(tensor);
    this.#best = answer.plan.calls.map(() => Number.POSITIVE_INFINITY);
    this.complete().catch(() => undefined); // A run that needs the weights rejects, too.
  }

  /**
   * Resolves when all weights are in memory and the outputs have been compared with those that are
   * known to be right, which runs need not wait for. Rejects with KernelZooError: network, artifact,
   * compare.
   */
  async complete(): Promise<void> {
    for (;;) {
      const opened = this.#opened;
      const { session } = await opened;
      try {
        return await session.complete;
      } catch (thrown) {
        await this.#replaced(opened, thrown);
      }
    }
  }

  /** @internal Returns what a graph is made of, once the model is complete. */
  async opened(): Promise<readonly [opener: Opener, opened: Opened]> {
    await this.complete();
    return [this.#opener, await this.#opened];
  }

  /** @internal True while runs are under way. */
  get running(): boolean {
    return this.#running > 0;
  }

  /** @internal True once it has answered a run. */
  get ran(): boolean {
    return this.#runs > 0;
  }

  /** Tells which kernel each call runs, where it came from, and how long it took so far. */
  get plan(): ModelPlan {
    const { answer, host, target } = this.#opener;
    const { fallbacks } = this.#shown;
    const { placement: _, ...loaded } = this.#shown.loaded;
    const { dimensions } = answer.plan;
    const { threads } = host;
    const reason = loaded.threads > 1 ? null : (loaded.singleThreadReason ?? threads.reason);
    const served = plannedCalls(answer.plan, answer.kernels, fallbacks, this.#best);
    const calls = this.tuning?.planned(served) ?? served;
    const { device_class: deviceClass, precision = null, precisions = [] } = answer;
    return {
      ...{ dimensions, deviceClass, ...target, precision },
      precisionReason: answer.precision_reason ?? "",
      precisions: precisions.map(({ expected_ms, ...compared }) => {
        return { ...compared, expectedMs: expected_ms };
      }),
      ...{ calls, ...loaded, singleThreadReason: reason },
    };
  }

  /** Calls `listener` from now on; returns a function that ends that. */
  on<Event extends keyof ModelEvents>(
    event: Event,
    listener: (told: ModelEvents[Event]) => void,
  ): () => void {
    return this.#listeners.on(event, listener);
  }

  /** @internal */
  tell<Event extends keyof ModelEvents>(event: Event, value: ModelEvents[Event]): void {
    this.#listeners.tell(event, value);
  }

  /**
   * Computes the outputs by name, row-major, each a typed array of its dtype. Runs that overlap
   * follow each other. A kernel that traps is replaced by its default, and the run is repeated. A
   * feed that is no input but a constant of the import, such as `use_cache_branch`, chooses the
   * plan that runs, which is opened with the first such feed. Rejects with KernelZooError (run) for
   * feeds that do not fit, for a misspelt option and a signal that is none, and with the reason of
   * `signal`.
   */
  async run(
    feeds: FeedsOf<Types>,
    options: RunOptions<Types["outputs"]> = {},
  ): Promise<Types["outputs"]> {
    const { answer, host } = this.#opener;
    const { inputs, outputs, dimensions } = answer.plan;
    const chooses = (name: string) =>
      Object.hasOwn(dimensions, name) && !inputs.some((port) => port.name === name);
    if (this.#open !== undefined && Object.keys(feeds).some(chooses)) {
      if (this.#branches !== undefined) return this.#branches.run(feeds, options);
      return this.#runBranch(this.#open, structuredClone(feeds), options);
    }
    if (this.#opener.target.target === "webgpu") this.#ready?.soon?.();
    const opened = this.#opened;
    // The memory of the last feeds is used again, unless runs are under way: one that is refused is
    // repeated with its feeds.
    const spare = this.#running > 0 ? null : this.#last;
    let last: readonly Stored[];
    try {
      for (const name in options) {
        const isSignal = typeof (options.signal ?? { aborted: false }).aborted === "boolean";
        const fits = name === "signal" ? isSignal : name === "into" && areArrays(options.into);
        if (!fits) throw new Misfit("option", { name });
      }
      last = storedFeeds(inputs, feeds, spare, host.shares);
    } catch (thrown) {
      throw await refusal(thrown);
    }
    this.#last = last;
    const running = this.#ready?.run(this.#sent(last), options);
    this.#running += 1;
    try {
      const ran = await (running === undefined
        ? this.#run(last, options)
        : this.#ran(running, opened, last, options));
      // A GPU ends what it was handed before it heard of the signal.
      options.signal?.throwIfAborted();
      return Object.fromEntries(
        outputs.map(({ name, dtype }, i) => [name, tensorData(dtype, ran.outputs[i] as Stored)]),
      );
    } finally {
      this.#running -= 1;
    }
  }

  /** Runs the model a few times and answers what each call took. Rejects as `run` does. */
  async profile(options: ProfileOptions = {}): Promise<Profile> {
    const { profileOf } = await import("./profile.js");
    const run = (feeds: readonly Stored[], signal?: AbortSignal) =>
      this.#run(feeds, { signal, timed: true });
    // A plan that serves a range has inputs that no page feeds.
    const { inputs } = this.#opener.answer.plan;
    return profileOf({ inputs, plan: this.plan }, this.#last, run, options);
  }

  /** Ends the worker and gives its memory back. Runs that are under way are rejected. */
  async dispose(): Promise<void> {
    const over = new KernelZooError("run", `${this.name} was disposed of. Open it again.`);
    this.#ready?.end?.(over);
    this.#ready = undefined;
    this.#opener.close(over);
    await this.#branches?.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose();
  }

  /** Runs the plan that feeds ask for, which later runs do without a wait. */
  async #runBranch(
    open: (dimensions: Dimensions) => Promise<Model<Types>>,
    feeds: FeedsOf<Types>,
    options: RunOptions<Types["outputs"]>,
  ): Promise<Types["outputs"]> {
    const { Branches } = await import("./branches.js");
    this.#branches ??= new Branches(this, open);
    return this.#branches.run(feeds, options);
  }

  /**
   * Returns the feeds for the worker: copies, in memory that it gave back, of those that it does
   * not share.
   */
  #sent(feeds: readonly Stored[]): readonly Stored[] {
    const spare = this.#spare;
    this.#spare = [];
    return feeds.map((feed, i) => (isShared(feed) ? feed : copied(feed, spare[i])));
  }

  async #run(feeds: readonly Stored[], options: ClientRun): Promise<Ran> {
    const opened = this.#opened;
    const { session } = await opened;
    const running = session.run(
      feeds.map((feed) => copied(feed)),
      options,
    );
    return this.#ran(running, opened, feeds, options);
  }

  /**
   * Waits for a run of a session and returns its answer; the run is repeated with `feeds` where the
   * model was refused.
   */
  async #ran(
    running: Promise<Ran>,
    opened: Promise<Opened>,
    feeds: readonly Stored[],
    options: ClientRun,
  ): Promise<Ran> {
    try {
      const ran = await running;
      const failure = (await this.#halves)?.overflowOf(feeds, ran.outputs);
      if (failure && this.#opener.answer.plan.needs.includes("f16"))
        throw new WorkerFailure(failure);
      this.#spare = ran.feeds;
      if (this.#runs++ > 0) this.#learn(ran);
      // What the page cannot run itself goes on in the worker.
      if (this.#short.areShort(elapsedMs(ran))) this.#runHere(opened).catch(() => undefined);
      return ran;
    } catch (thrown) {
      await this.#replaced(opened, thrown);
      return this.#run(feeds, { ...options, into: undefined });
    }
  }

  /**
   * Opens a model that was refused anew. Of several runs that hear of it, the first does so, and
   * the others wait for it.
   */
  async #replaced(opened: Promise<Opened>, thrown: unknown): Promise<void> {
    if (!(thrown instanceof WorkerFailure)) throw thrown;
    if (this.#opened === opened) {
      this.#ready = undefined;
      this.#opened = this.#reopened(opened, thrown);
    }
    await this.#opened;
  }

  async #reopened(refusing: Promise<Opened>, refused: WorkerFailure): Promise<Opened> {
    const opened = await refusing;
    const { target } = this.plan;
    const again = await this.#opener.reopen(opened, refused);
    this.#shown = again;
    this.#ready = again.session;
    const { target: next, targetReason: reason } = this.plan;
    if (next !== target) this.tell("devicelost", { reason });
    for (const [workload, reason] of again.fallbacks) {
      if (!opened.fallbacks.has(workload)) this.tell("fallback", { workload, reason });
    }
    return again;
  }

  /** Has the page run a short plan itself, once it is complete, where no kernels are swapped. */
  async #runHere(opening: Promise<Opened>): Promise<void> {
    const { session, loaded } = await opening;
    const { plan } = this.#opener.answer;
    const fits = !plan.axes && loaded.memoryBytes <= MOST_COPIED_BYTES;
    if (!fits || this.#copied === session) return;
    this.#copied = session;
    const { pageRuns } = await import("./page-runs.js");
    const here = await pageRuns(session, plan);
    if (here !== null && this.#ready === session) this.#ready = here;
  }

  #learn({ times }: Ran): void {
    for (const [i, best] of this.#best.entries()) {
      this.#best[i] = Math.min(best, times[3 * i + 1] ?? best);
    }
  }
}
