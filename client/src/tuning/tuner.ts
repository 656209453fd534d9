/**
 * Entry of the tuner, which a page loads with the first model that it has tuned. It does what
 * `controller` decides, and tells it what has happened since.
 */
import type { FromWorker as FromAgent, StartOptions } from "../agent/messages.js";
import { mainPause, type Pause, pauses, watchDevice, watchPage } from "../agent/pauses.js";
import type { SentRequest } from "../agent/request-log.js";
import type { CallTimes } from "../backend/wasm/dispatch.js";
import { storedNotes } from "../device/notebook.js";
import { workerOf } from "../engine/page-worker.js";
import type { Host } from "../model/host.js";
import type { Spawn } from "../model/opener.js";
import type { PlannedCall } from "../model/planned-calls.js";
import { type Answered, modelAddress } from "../model/request.js";
import { type Handlers, handle } from "../rpc.js";
import type { PlanWire } from "../wire/model-answer.js";
import type { MeasuredTarget } from "../wire/types.js";
import { WORKERS } from "../workers.js";
import {
  answerWithTrusted,
  callsWithWinners,
  type Effect,
  initialState,
  isAtFault,
  leftMs,
  type Measure,
  reasonFor,
  step,
  suspects,
  type TuningEvent,
  type TuningState,
  timedInTokens,
  tuningState,
  unsettled,
} from "./controller.js";
import type { FromMeasurer, FromTuned } from "./messages.js";
import type { ModelTuning, Swap, TuneOptions, TuningEvents } from "./page-view.js";
import { RunTimes } from "./run-times.js";
import { WatchedRuntime } from "./watched-worker.js";
import { Wins } from "./win-cache.js";

/** A model of any types, or a language model. */
export interface Tunable {
  tuning: ModelTuning | undefined;
  tell<Event extends keyof TuningEvents>(event: Event, detail: TuningEvents[Event]): void;
}

export interface Tuned {
  readonly answered: Answered;
  readonly spawn: Spawn;
  attach(model: Tunable): void;
}

/** The texts of the workers of a target. */
type Sources = Readonly<Record<"measurer" | "model", string>>;

const PING_MS = 1_000;
/** The milliseconds after which a swap is asked for again that failed as the zoo was away. */
const POSTPONED_MS = 5_000;
/** The most workloads that a request for a lease may name. */
const MOST_WORKLOADS = 64;

/** A worker that measures, and what is aborted with it. */
interface MeasurerWorker {
  readonly worker: Worker;
  readonly ended: AbortController;
}

const timesOf = (plan: PlanWire): RunTimes => new RunTimes(plan, globalThis.crossOriginIsolated);

class Tuner implements ModelTuning, Tuned {
  readonly #host: Host;
  readonly #options: TuneOptions;
  readonly #sources: Sources;
  readonly #plain: Spawn;
  readonly #wins: Wins;
  readonly #pauses = pauses(() =>
    this.#take({ type: "paused", by: new Set(this.#pauses.because) }),
  );
  #state: TuningState;
  /** Effects that were decided and are not done yet. */
  readonly #effects: Effect[] = [];
  #isActing = false;
  readonly #actions: Handlers<Effect> = {
    measure: ({ order }) => this.#measure(order),
    quit: () => this.#quit(),
    "load-agent": () => this.#loadAgent(),
    "start-agent": ({ text }) => this.#startAgent(text),
    withdraw: () => this.#withdraw(),
    "tell-measurer": ({ message }) => this.#measurer?.worker.postMessage(message),
    "tell-model": ({ message }) => this.#runtime?.tell(message),
    "tell-agent": ({ message }) => this.#agent?.postMessage(message),
    "tell-swap": ({ swap }) => this.#model?.tell("swap", swap),
    "tell-regression": ({ regression }) => this.#model?.tell("regression", regression),
    keep: ({ workload, win }) => this.#wins.keep(workload, win),
    forget: ({ workloads }) => this.#wins.forget(workloads),
    avoid: ({ artifact }) => this.#wins.avoid(artifact),
    note: ({ key, value }) => this.#host.notes.write(key, value),
    "time-plan": ({ plan }) => {
      this.#times = timesOf(plan);
    },
    "time-swap": ({ workload, relativeTime }) => this.#times.swapped(workload, relativeTime),
    "time-before": ({ workload }) => this.#times.takenBack(workload),
    postpone: () => setTimeout(() => this.#take({ type: "swap-due" }), POSTPONED_MS),
  };
  #times: RunTimes;
  #model: Tunable | null = null;
  #runtime: WatchedRuntime | null = null;
  #measurer: MeasurerWorker | null = null;
  #agent: Worker | null = null;

  constructor(
    host: Host,
    answered: Answered,
    options: TuneOptions,
    target: MeasuredTarget,
    sources: Sources,
    plain: Spawn,
  ) {
    const { budgetMs = Number.POSITIVE_INFINITY, contribute = false } = options;
    const { device_class, plan } = answered.answer;
    this.#host = host;
    this.#options = options;
    this.#sources = sources;
    this.#plain = plain;
    this.#times = timesOf(plan);
    this.#wins = new Wins(host.notes, answered.origin, device_class, navigator.userAgent);
    const terms = { target, budgetMs, contributes: contribute !== false };
    this.#state = initialState(answered, terms, this.#wins.avoided);
  }

  get answered(): Answered {
    return this.#state.answered;
  }

  get pausedBecause(): Pause | null {
    return mainPause(this.#state.pausedBy);
  }

  get state(): ModelTuning["state"] {
    return tuningState(this.#state);
  }

  get reason(): string {
    return reasonFor(this.#state);
  }

  get spentMs(): number {
    return this.#state.spentMs;
  }

  get measured(): number {
    return this.#state.measured;
  }

  get contributed(): number {
    return this.#state.contributed;
  }

  get swaps(): readonly Swap[] {
    return this.#state.swaps;
  }

  get sent(): readonly SentRequest[] {
    return this.#state.sent;
  }

  get requests(): number {
    return this.#state.requests;
  }

  stop(): void {
    this.#take({ type: "stop" });
  }

  planned(calls: readonly PlannedCall[]): readonly PlannedCall[] {
    return callsWithWinners(this.#state, calls);
  }

  attach(model: Tunable): void {
    this.#model = model;
    model.tuning = this;
    this.#take({ type: "attached" });
  }

  readonly spawn: Spawn = (target, source) => {
    if (this.#state.terms.target !== target) {
      this.#take({ type: "gpu-lost" });
      this.#runtime = null;
      return this.#plain(target, source);
    }
    this.#take({ type: "spawned" });
    this.#runtime = new WatchedRuntime(this.#sources.model, {
      loads: (answer) => {
        this.#take({ type: "loads", answer, trusted: this.#wins.trusted(answer) });
        return answerWithTrusted(this.#state);
      },
      loaded: () => this.#take({ type: "loaded" }),
      runs: () => this.#take({ type: "runs", isBusy: this.#runtime?.busy === true }),
      ran: (times) => this.#ran(times),
      told: (message) => this.#told(message),
      refused: () => this.#take({ type: "refused" }),
      givesUp: (failure) => {
        const atFault = isAtFault(this.#state, failure);
        this.#take({ type: "failed", failure });
        return atFault;
      },
      hangs: () => {
        const any = suspects(this.#state).length > 0;
        this.#take({ type: "hangs" });
        return any;
      },
      ended: () => this.#take({ type: "terminated" }),
    });
    return this.#runtime;
  };

  /**
   * Takes an event, and does what follows from it. Where that makes another event at once, what
   * follows from that is done behind it.
   */
  #take(event: TuningEvent): void {
    const [state, effects] = step(this.#state, event);
    this.#state = state;
    this.#effects.push(...effects);
    if (this.#isActing) return;
    this.#isActing = true;
    try {
      for (let next = this.#effects.shift(); next; next = this.#effects.shift()) {
        handle(this.#actions, next);
      }
    } finally {
      this.#isActing = false;
    }
  }

  #told(message: FromTuned): void {
    if (message.type === "timed") this.#ran(message.times);
    else this.#take({ type: "model", message, atMs: Date.now() });
  }

  #ran(times: CallTimes): void {
    const slower = this.#times.ran(times);
    this.#take({ type: "ran", slower, ms: this.#times.ms });
  }

  /** Starts the worker that measures. */
  #measure(order: Measure): void {
    const { answer, origin } = this.answered;
    const worker = workerOf(this.#sources.measurer, "kernelzoo tuner");
    const ended = new AbortController();
    this.#measurer = { worker, ended };
    const isCurrent = (): boolean => this.#measurer?.worker === worker;
    worker.onmessage = ({ data }: MessageEvent<FromMeasurer>) => {
      if (isCurrent()) this.#take({ type: "measurer", message: data });
    };
    worker.onerror = () => this.#take({ type: "measurer-failed" });
    const kept = this.#wins
      .unproven(answer)
      .map(([workload, { kernel }]) => ({ workload, kernel }));
    const { name, device_class: deviceClass, plan, precision } = answer;
    const { dimensions } = plan;
    const asker = { origin, deviceClass, hardware: this.#host.hardware };
    const candidates = modelAddress(asker, name, { dimensions, precision }, "/candidates").href;
    worker.postMessage({ type: "measure", order: { ...order, origin, candidates, kept } });
    worker.postMessage({ type: "times", ms: this.#times.ms });
    const ping = (): void => this.#take({ type: "ping", nowMs: performance.now() });
    const pinging = setInterval(ping, PING_MS);
    ended.signal.addEventListener("abort", () => clearInterval(pinging));
    // The owner of an automated browser has decided.
    if (!navigator.webdriver) watchDevice(this.#pauses, ended.signal);
    watchPage(this.#pauses, ended.signal);
  }

  #quit(): void {
    this.#measurer?.ended.abort();
    this.#measurer?.worker.terminate();
    this.#measurer = null;
  }

  #loadAgent(): void {
    WORKERS.agent().then(({ default: text }) => this.#take({ type: "agent-loaded", text }));
  }

  #startAgent(text: string): void {
    const state = this.#state;
    const { contribute } = this.#options;
    const { ms } = this.#times;
    const byTime = unsettled(state).toSorted((a, b) => (ms[b] ?? 0) - (ms[a] ?? 0));
    const options: StartOptions = {
      origin: this.answered.origin,
      targets: [state.terms.target],
      workloads: byTime.slice(0, MOST_WORKLOADS),
      inTokens: timedInTokens(state),
      beside: true,
      application: typeof contribute === "object" ? contribute.application : null,
      openedAt: performance.timeOrigin,
      operatorKey: null,
      hostTurns: false,
      // The site has asked its visitor.
      approved: true,
      allowed: { leftMs: leftMs(state), share: 1 },
      notes: storedNotes(),
    };
    const worker = workerOf(text, "kernelzoo agent");
    this.#agent = worker;
    worker.onmessage = ({ data }: MessageEvent<FromAgent>) => {
      if (this.#agent === worker) this.#take({ type: "agent", message: data });
    };
    worker.onerror = () => this.#take({ type: "agent-failed" });
    worker.postMessage({ type: "start", options });
  }

  #withdraw(): void {
    this.#agent?.terminate();
    this.#agent = null;
  }
}

/**
 * `plain` starts the worker of a model that is not tuned. `model` is the text of a worker that
 * takes the place of the usual one, such as that of a language model.
 */
export async function tuned(
  host: Host,
  answered: Answered,
  target: MeasuredTarget,
  options: TuneOptions,
  plain: Spawn,
  model?: string,
): Promise<Tuned> {
  const [measurer, usual] = await Promise.all([
    WORKERS.measurer[target](),
    model === undefined ? WORKERS.tuned[target]() : { default: model },
  ]);
  const sources = { measurer: measurer.default, model: usual.default };
  return new Tuner(host, answered, options, target, sources, plain);
}
