/** A language model that generates tokens, in a worker of its own. */
import { KernelZooError } from "../engine/error.js";
import { pageError, type Ran, WorkerFailure } from "../executor/worker-client.js";
import type { Listeners } from "../model/listeners.js";
import type { Opened, Opener } from "../model/opener.js";
import type { Answered } from "../model/request.js";
import { now } from "../timing/clock.js";
import type { ModelTuning, TuningEvents } from "../tuning/page-view.js";
import type { DecoderWire, PlanWire } from "../wire/model-answer.js";
import type { TargetKind } from "../wire/types.js";
import {
  type BeamSettings,
  GREEDY,
  knownTokens,
  MOST_STEPS,
  orderFeeds,
  type Sampling,
  type SourceFeed,
} from "./decode-order.js";
import { encoderOf, inputFault, isSameInput, sourceFeed } from "./source.js";

/**
 * The reason why a text ended: at a token that ends texts, or as it had `maxTokens` or there was no
 * room for more.
 */
export type GenerateEnd = "stop" | "length";

/** Plans of the model that have room for more tokens. */
export interface LargerPlans {
  /** Tokens that plans have room for, the fewest first; none where there is one plan. */
  readonly contexts: readonly number[];
  readonly planned: (context: number) => Promise<Answered>;
  /** Lets go of what plans hold of the device, once the model has ended. */
  readonly dispose: () => void;
}

/** The signal that stops a model that is being opened: the page's, and later that of a text. */
export interface Stopping {
  signal: AbortSignal | undefined;
}

export interface GenerateOptions extends Partial<Sampling> {
  /** The most tokens to generate; as many as the context has room for unless told. */
  readonly maxTokens?: number;
  /** Tokens that end the text, which are not among those generated; the model's own unless told. */
  readonly stop?: readonly number[];
  /** Added to the logits of tokens, by their numbers; -100 leaves a token out. */
  readonly logitBias?: Readonly<Record<number, number>>;
  /** Stops between two tokens; the generator throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** Tokens that are fetched together, 16 at the most; as many as take 8 ms unless told. */
  readonly interval?: number;
}

/** A text that a model with an encoder makes of what that reads, such as a translation. */
export interface SourceOptions extends GenerateOptions {
  /**
   * The encoder reads this: the tokens of a text, or of a model that hears the whole spectrogram,
   * band after band (`LanguageModel.inputShape`).
   */
  readonly input: ArrayLike<number>;
  /**
   * Tokens with which the text begins, such as those of its language; they are not among those
   * generated. `LanguageModel.startTokens` unless told.
   */
  readonly prompt?: ArrayLike<number>;
  /**
   * Texts that are followed at once, 16 at the most, of which the likeliest is the answer; 1 unless
   * told. With more than one all tokens come together, once the text has ended.
   */
  readonly beams?: number;
  /**
   * A text's score is the sum of the logarithms of its tokens' probabilities, divided by its length to
   * this power: above 0 longer texts score better. 1 unless told; of use with beams alone.
   */
  readonly lengthPenalty?: number;
}

/** A text that is generated: behind a prompt, and of a source where the model has an encoder. */
interface Text {
  readonly prompt: readonly number[];
  readonly options: GenerateOptions;
  readonly source: SourceFeed | null;
  readonly beams: BeamSettings | null;
}

/** Leaves a token out whatever its logit is. */
const SUPPRESSED = -1e9;

/** The measurements of the last text, and of the model altogether. */
export interface LanguageStats {
  /** Tokens of the prompt that were computed, and those that were in the cache already. */
  readonly promptTokens: number;
  readonly reusedTokens: number;
  /** Time until the first token was there. */
  readonly prefillMs: number;
  readonly tokens: number;
  /** Mean time of the tokens after the first one; null before there are two. */
  readonly msPerToken: number | null;
  /**
   * The bytes of the weights that a token reads, over its time; null before there are two tokens.
   */
  readonly gigabytesPerSecond: number | null;
  /**
   * The rate as a share of what the GPU's memory gives as it was probed; null where it was not, as
   * for a file, on WebAssembly, and before there are two tokens.
   */
  readonly bandwidthShare: number | null;
  readonly interval: number;
  readonly memoryBytes: number;
  /** Threads that compute on WebAssembly; 1 on a GPU. */
  readonly threads: number;
}

/** Fetches under way at once: one is read while the next ones compute. */
const FLIGHTS = 3;
/** A page draws every 16 ms; tokens that come in less are fetched together. */
const FETCH_MS = 8;
/** Failures of one text after which the model is opened anew. */
const MOST_FAILURES = 2;

/** Returns how tokens are chosen; an option that is undefined is as good as left out. */
function samplingOf(options: Partial<Sampling>): Sampling {
  const chosen = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...GREEDY, ...Object.fromEntries(chosen) };
}

/** The names of the options of a text. */
const OPTIONS: Readonly<Record<keyof GenerateOptions, true>> = {
  ...{ maxTokens: true, stop: true, logitBias: true, signal: true, interval: true, seed: true },
  ...{ temperature: true, topK: true, topP: true, minP: true },
  ...{ repetitionPenalty: true, frequencyPenalty: true, presencePenalty: true },
};
const SOURCE_OPTIONS: Readonly<Record<keyof SourceOptions, true>> = {
  ...OPTIONS,
  ...{ input: true, prompt: true, beams: true, lengthPenalty: true },
};

/** The values that each option of a text may have, in words and as a test. */
const NUMBERS: readonly (readonly [keyof SourceOptions, string, (value: number) => boolean])[] = [
  ["maxTokens", "a whole number of at least 1", (n) => Number.isInteger(n) && n >= 1],
  ["interval", "a whole number from 1 to 16", (n) => Number.isInteger(n) && n >= 1 && n <= 16],
  ["temperature", "0 or more", (n) => n >= 0 && n < Infinity],
  ["topK", "a whole number from 0 on", (n) => Number.isInteger(n) && n >= 0],
  ["topP", "above 0", (n) => n > 0],
  ["minP", "from 0 to 1", (n) => n >= 0 && n <= 1],
  ["repetitionPenalty", "above 0", (n) => n > 0 && n < Infinity],
  ["frequencyPenalty", "a finite number", Number.isFinite],
  ["presencePenalty", "a finite number", Number.isFinite],
  ["seed", "a whole number", Number.isInteger],
  ["beams", "a whole number from 1 to 16", (n) => Number.isInteger(n) && n >= 1 && n <= 16],
  ["lengthPenalty", "a finite number", Number.isFinite],
];

/** True for options of a text of a source; all else is to be tokens. */
const hasInputOf = (given: ArrayLike<number> | SourceOptions): given is SourceOptions =>
  typeof given === "object" && given !== null && !("length" in given);

/** Counts the first tokens that are the same. */
function shared(left: readonly number[], right: readonly number[]): number {
  const most = Math.min(left.length, right.length);
  for (let i = 0; i < most; i++) if (left[i] !== right[i]) return i;
  return most;
}

/** Sums the bytes of the weights that a token reads whole: of the embedding it reads a row. */
function bytesReadByToken(plan: PlanWire): number {
  const { step } = plan.decoder as DecoderWire;
  const calls = plan.calls.slice(step).filter(({ kernel }) => {
    return !plan.kernels[kernel]?.startsWith("gather");
  });
  const read = new Set(calls.flatMap(({ tensors }) => tensors.map((i) => plan.tensors[i]?.weight)));
  return plan.weights.reduce((sum, { bytes }, i) => sum + (read.has(i) ? bytes : 0), 0);
}

export class LanguageModel {
  readonly name: string;
  /**
   * Tokens that a prompt and what follows it may have together, with the zoo's largest plan; a text
   * has fewer where memory does not suffice for that.
   */
  readonly contextLength: number;
  readonly vocabulary: number;
  /** Tokens that end a text. */
  readonly stopTokens: readonly number[];
  /**
   * The shape of what the encoder reads: the most tokens, or the bands and frames of a spectrogram;
   * null for a model without one.
   */
  readonly inputShape: readonly number[] | null;
  /** Tokens with which a text of a model with an encoder begins unless told; else none. */
  readonly startTokens: readonly number[];
  /** The state of tuning in this page; undefined where it was not asked for. */
  tuning: ModelTuning | undefined;
  /**
   * Resolves when the device keeps the model under the key of `save`, with every context; rejects with
   * KernelZooError. Undefined without `save`.
   */
  saved: Promise<void> | undefined;
  readonly #opener: Opener;
  readonly #larger: LargerPlans;
  readonly #stopping: Stopping;
  readonly #listeners: Listeners<TuningEvents>;
  #opened: Opened;
  /** The tokens whose keys and values are in the cache. */
  #held: number[] = [];
  /** The source that the encoder read last. */
  #heldSource: SourceFeed | null = null;
  #busy = false;
  #stats: Omit<LanguageStats, "threads">;

  /** @internal */
  constructor(
    opener: Opener,
    opened: Opened,
    larger: LargerPlans,
    stopping: Stopping,
    listeners: Listeners<TuningEvents>,
  ) {
    const { name, plan } = opener.answer;
    const { length, vocabulary, stop } = plan.decoder as DecoderWire;
    this.name = name;
    this.contextLength = Math.max(length, ...larger.contexts);
    this.vocabulary = vocabulary;
    this.stopTokens = stop;
    const encoder = encoderOf(plan);
    this.inputShape = encoder?.shape ?? null;
    this.startTokens = encoder?.encoder.start ?? [];
    this.#opener = opener;
    this.#opened = opened;
    this.#larger = larger;
    this.#stopping = stopping;
    this.#listeners = listeners;
    this.#stats = {
      ...{ promptTokens: 0, reusedTokens: 0, prefillMs: 0, tokens: 0, interval: 1 },
      ...{ msPerToken: null, gigabytesPerSecond: null, bandwidthShare: null },
      memoryBytes: opened.loaded.memoryBytes,
    };
  }

  /**
   * The target that it runs on: the GPU, or WebAssembly where there is none, where it failed, or
   * where the zoo measured it to be slower.
   */
  get target(): TargetKind {
    return this.#opener.target.target;
  }

  /** The reason why that is not the GPU; null where it is, or nobody asked for one. */
  get targetReason(): string | null {
    return this.#opener.target.targetReason;
  }

  stats(): LanguageStats {
    return { ...this.#stats, threads: this.#opened.loaded.threads };
  }

  /**
   * Generates the tokens that follow those of a prompt, one after the other. What prompt and cache
   * begin with together is not computed again, so a page gives the whole conversation each time.
   * Throws KernelZooError: run for a prompt that does not fit, for an option that is misspelt or
   * has no such value, and while another text is generated; memory for a prompt that needs a
   * context for which memory does not suffice.
   */
  generate(
    ids: ArrayLike<number>,
    options?: GenerateOptions,
  ): AsyncGenerator<number, GenerateEnd, undefined>;
  /**
   * Generates the tokens of a text that a model with an encoder makes of an input, such as its
   * translation. An input that is the same as the last one is not read again. Throws as above.
   */
  generate(options: SourceOptions): AsyncGenerator<number, GenerateEnd, undefined>;
  async *generate(
    given: ArrayLike<number> | SourceOptions,
    options: GenerateOptions = {},
  ): AsyncGenerator<number, GenerateEnd, undefined> {
    const hasInput = hasInputOf(given);
    await this.#refuseUnknown(
      ...(hasInput ? ([given, SOURCE_OPTIONS] as const) : ([options, OPTIONS] as const)),
    );
    // Nothing is awaited from here until it is busy: a second text would begin meanwhile.
    const text = hasInput ? this.#sourceText(given) : this.#plainText(given, options);
    const { prompt } = text;
    const { signal } = text.options;
    const ending = new AbortController();
    const stop = (): void => ending.abort(signal?.reason);
    signal?.throwIfAborted();
    signal?.addEventListener("abort", stop, { once: true });
    this.#busy = true;
    this.#stopping.signal = ending.signal;
    const generated: number[] = [];
    try {
      for (let failures = 0; ; ) {
        try {
          const tokens = prompt.length + generated.length;
          if (tokens >= this.#room && !(await this.#grew(tokens, generated.length > 0)))
            return "length";
          ending.signal.throwIfAborted();
          const end = yield* this.#decoded(text, generated, ending.signal);
          if (end !== "full") return end;
        } catch (thrown) {
          // The page has the tokens so far; the prompt of the new cache ends with them.
          if (ending.signal.aborted || failures === MOST_FAILURES) throw thrown;
          await this.#reopened(thrown, failures++);
        }
      }
    } catch (thrown) {
      throw pageError(thrown);
    } finally {
      signal?.removeEventListener("abort", stop);
      ending.abort();
      this.#busy = false;
    }
  }

  /**
   * Calls `listener` from now on, where the model is tuned in the page; returns a function that
   * ends that.
   */
  on<Event extends keyof TuningEvents>(
    event: Event,
    listener: (told: TuningEvents[Event]) => void,
  ): () => void {
    return this.#listeners.on(event, listener);
  }

  /** @internal */
  tell<Event extends keyof TuningEvents>(event: Event, value: TuningEvents[Event]): void {
    this.#listeners.tell(event, value);
  }

  /** Forgets the cache behind so many tokens of the last text; the next prompt computes them again. */
  rewind(tokens = 0): void {
    this.#held.length = Math.min(this.#held.length, tokens);
  }

  /** Ends the worker and gives its memory back. What is generated is rejected. */
  async dispose(): Promise<void> {
    this.#opener.close(this.#error(`${this.name} was disposed of. Open it again.`));
    this.#larger.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose();
  }

  /** Tokens that the plan which is open has room for. */
  get #room(): number {
    return (this.#opener.answer.plan.decoder as DecoderWire).length;
  }

  /**
   * Opens the smallest context with room behind so many tokens; the cache is filled anew. False for
   * a text that has begun and that memory does not suffice for.
   */
  async #grew(tokens: number, begun: boolean): Promise<boolean> {
    const context = this.#larger.contexts.find((length) => length > tokens);
    if (context === undefined) return false;
    try {
      const planned = await this.#larger.planned(context);
      const answered = { ...planned, reason: this.targetReason ?? planned.reason ?? null };
      await this.#whole(this.#opener.change(this.#opened, answered));
    } catch (thrown) {
      if (begun && (thrown as { readonly stage?: unknown }).stage === "memory") return false;
      throw thrown;
    }
    this.#forget();
    this.#stats = { ...this.#stats, memoryBytes: this.#opened.loaded.memoryBytes };
    return true;
  }

  #forget(): void {
    this.#held = [];
    this.#heldSource = null;
  }

  /** Adds what it generates to `generated`. The end is `full` where a larger context would go on. */
  async *#decoded(
    { prompt: ids, options, source, beams }: Text,
    generated: number[],
    signal: AbortSignal,
  ): AsyncGenerator<number, GenerateEnd | "full", undefined> {
    const { stop = this.stopTokens } = options;
    const before = generated.length;
    const prompt = [...ids, ...generated];
    const { maxTokens = Infinity } = options;
    const left = Math.min(maxTokens, this.#room - ids.length) - generated.length;
    if (left <= 0) return "length";
    const weightBytes = bytesReadByToken(this.#opener.answer.plan);
    const sampling = samplingOf(options);
    const known = knownTokens(ids, generated, sampling, this.#biases(options));
    const isRead = source === null || isSameInput(this.#heldSource, source);
    if (!isRead) this.#forget();
    // The last token is computed again where all are held: its logits are not.
    const place = Math.min(shared(this.#held, prompt), prompt.length - 1);
    this.#held.length = place;
    const start = now();
    const ask = (at: number | null, tokens: number): Promise<Ran> => {
      const given = at === null ? [] : prompt.slice(at);
      const adjustment = { adjusted: known !== null, known: (at !== null && known) || [] };
      const order = {
        place: at,
        prompt: given,
        tokens,
        sampling,
        ...adjustment,
        logits: false,
        beams,
      };
      const feeds = orderFeeds({ ...order, source: at === null || isRead ? null : source });
      const ran = this.#opened.session.run(feeds, { signal });
      ran.catch(() => undefined); // The caller may have stopped awaiting it.
      return ran;
    };
    // Beams are followed to their end at once.
    const flights = [ask(place, beams === null ? 1 : left)];
    let [tokens, first, interval] = [0, 0, options.interval ?? 1];
    let asked = beams === null ? 1 : left;
    let last: number | undefined;
    for (let ran = flights.shift(); ran !== undefined; ran = flights.shift()) {
      while (flights.length < FLIGHTS - 1 && asked < left) {
        const count = Math.min(interval, MOST_STEPS, left - asked);
        flights.push(ask(null, count));
        asked += count;
      }
      const batch = (await ran).outputs[0] as Int32Array;
      if (tokens === 0) {
        first = now();
        this.#heldSource = source;
        this.#held = beams === null ? [...prompt] : [];
      }
      for (const token of batch) {
        tokens += 1;
        const ended = stop.includes(token);
        if (!ended) generated.push(token);
        const msPerToken = tokens > batch.length ? (now() - first) / (tokens - 1) : null;
        this.#stats = {
          ...this.#stats,
          ...{ promptTokens: prompt.length - place, reusedTokens: place },
          ...{ prefillMs: first - start, tokens: generated.length, interval, msPerToken },
          ...this.#bandwidth(weightBytes, msPerToken),
        };
        if (ended) return "stop";
        // The one before is in the cache, as this one was computed from it.
        if (last !== undefined && beams === null) this.#held.push(last);
        last = token;
        signal.throwIfAborted();
        yield token;
        signal.throwIfAborted();
      }
      const pace = this.#stats.msPerToken;
      if (options.interval === undefined && pace !== null) {
        interval = Math.max(1, Math.min(MOST_STEPS, Math.round(FETCH_MS / pace)));
      }
    }
    if (beams !== null && generated.length - before < left) return "stop";
    return generated.length >= maxTokens || this.#room >= this.contextLength ? "length" : "full";
  }

  #bandwidth(
    weightBytes: number,
    msPerToken: number | null,
  ): Pick<LanguageStats, "gigabytesPerSecond" | "bandwidthShare"> {
    if (msPerToken === null) return { gigabytesPerSecond: null, bandwidthShare: null };
    const { gpu } = this.#opener.host;
    const gigabytesPerSecond = weightBytes / msPerToken / 1e6;
    const most = gpu.kind === "gpu" && this.target === "webgpu" ? gpu.bandwidthGbps : 0;
    return { gigabytesPerSecond, bandwidthShare: most > 0 ? gigabytesPerSecond / most : null };
  }

  /**
   * Opens the model anew after a failure: on the GPU for once, as that may have been lost by chance, and
   * then without what is to blame. Throws what cannot be mended.
   */
  async #reopened(thrown: unknown, failures: number): Promise<void> {
    if (!(thrown instanceof WorkerFailure)) throw thrown;
    this.#forget();
    if (thrown.failure.fault === null && failures === 0 && this.target === "webgpu") {
      this.#opened.session.end(thrown);
      await this.#whole(this.#opener.open());
    } else {
      await this.#whole(this.#opener.reopen(this.#opened, thrown));
    }
  }

  /**
   * Waits until all of a model that is being opened is there and right, and runs it from then on.
   * Where it is not, the next text opens it anew.
   */
  async #whole(opening: Promise<Opened>): Promise<void> {
    const opened = await opening;
    try {
      await opened.session.complete;
    } catch (thrown) {
      opened.session.end(thrown);
      throw thrown;
    }
    this.#opened = opened;
  }

  /** Returns what is added to logits: as the page says, and to leave out what is suppressed. */
  #biases({ logitBias }: GenerateOptions): Readonly<Record<number, number>> {
    const encoder = encoderOf(this.#opener.answer.plan)?.encoder;
    const left = (encoder?.suppressed ?? []).map((token) => [token, SUPPRESSED] as const);
    return { ...Object.fromEntries(left), ...logitBias };
  }

  /** Throws KernelZooError (run) for what cannot be generated. */
  #plainText(ids: ArrayLike<number>, options: GenerateOptions): Text {
    const prompt = Array.from(ids ?? []);
    this.#refuse(prompt, options);
    if (encoderOf(this.#opener.answer.plan) === null)
      return { prompt, options, source: null, beams: null };
    throw this.#error(
      `${this.name} has an encoder; say what that reads, as generate({ input: tokens }), and ` +
        "with `prompt` how the text begins.",
    );
  }

  /** Throws as `#plainText`. */
  #sourceText(given: SourceOptions): Text {
    const { plan } = this.#opener.answer;
    const fault = inputFault(plan, this.name, given.input);
    if (fault !== null) throw this.#error(fault);
    const { beams: count = 1, lengthPenalty = 1, stop = this.stopTokens } = given;
    const prompt = Array.from(given.prompt ?? this.startTokens);
    this.#refuse(prompt, given);
    if (count > 1 && (given.temperature ?? 0) > 0) {
      throw this.#error(
        "Beams are followed by the likeliest tokens, and none are drawn; leave out temperature, or " +
          "beams.",
      );
    }
    const beams = count > 1 ? { count, lengthPenalty, stop } : null;
    return { prompt, options: given, source: sourceFeed(plan, given.input), beams };
  }

  async #refuseUnknown(options: GenerateOptions, names: object): Promise<void> {
    const known = Object.keys(names);
    if (Object.keys(options).every((name) => known.includes(name))) return;
    const { unknownName } = await import("../sdk/refusals.js");
    throw this.#error(`${unknownName("llm.generate", options, known)}`);
  }

  #refuse(prompt: readonly number[], options: Partial<SourceOptions>): void {
    if (this.#busy) {
      throw this.#error(`${this.name} is generating a text; stop that first, or open it twice.`);
    }
    if (prompt.length === 0) throw this.#error("The prompt is empty; begin with a token.");
    if (prompt.length >= this.contextLength) {
      throw this.#error(
        `The prompt has ${prompt.length} tokens; ${this.name} has room for ${this.contextLength}, ` +
          "of which one at least is to be generated. Leave out its beginning.",
      );
    }
    const biased = Object.keys(options.logitBias ?? {}).map(Number);
    const isToken = (id: number): boolean =>
      Number.isInteger(id) && id >= 0 && id < this.vocabulary;
    const tokens = [...prompt, ...biased];
    const at = tokens.findIndex((id) => !isToken(id));
    if (at !== -1) {
      throw this.#error(
        `${tokens[at]} is no token of ${this.name}; they are 0 to ${this.vocabulary - 1}.`,
      );
    }
    const wrong = NUMBERS.find(([name, , fits]) => {
      const value: unknown = options[name];
      return value !== undefined && !(typeof value === "number" && fits(value));
    });
    if (wrong)
      throw this.#error(`${wrong[0]} is to be ${wrong[1]}; ${options[wrong[0]]} was given.`);
    const { stop = [], signal } = options;
    if (!(Array.isArray(stop) && stop.every(Number.isInteger))) {
      throw this.#error(`stop is to be a list of tokens; ${stop} was given.`);
    }
    if (signal !== undefined && typeof signal?.aborted !== "boolean") {
      throw this.#error(`signal is to be an AbortSignal; ${signal} was given.`);
    }
    const biases: readonly unknown[] = Object.values(options.logitBias ?? {});
    if (!biases.every(Number.isFinite)) throw this.#error("logitBias has a number for each token.");
  }

  #error(message: string): Error {
    return new KernelZooError("run", message);
  }
}
