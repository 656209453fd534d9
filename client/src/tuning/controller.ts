/** Entry of the tuner, which a page loads with the first model that it has tuned. */
import { mainPause, PAUSES, type Pause, pauses, watchDevice, watchPage } from "../agent/pauses.js";
import type { SentRequest } from "../agent/request-log.js";
import type { CallTimes } from "../backend/wasm/dispatch.js";
import { workerOf } from "../engine/page-worker.js";
import type { Failure, LoadOrder } from "../executor/messages.js";
import type { RuntimeWorker } from "../executor/worker-client.js";
import type { Host } from "../model/host.js";
import type { Spawn } from "../model/opener.js";
import type { PlannedCall } from "../model/planned-calls.js";
import type { Answered } from "../model/request.js";
import type { MeasuredTarget, ServedKernel } from "../wire/types.js";
import { WORKERS } from "../workers.js";
import type { Contributing } from "./contribution.js";
import type { Found, FromMeasurer, FromTuned, Running, ToMeasurer, ToTuned } from "./messages.js";
import type { ModelTuning, Swap, TuneOptions, TuningEvents } from "./page-view.js";
import { RunTimes } from "./run-times.js";
import { WatchedRuntime } from "./watched-worker.js";
import { type Win, Wins } from "./win-cache.js";

/** A model of any types, or a language model. */
export interface Tunable {
  tuning: ModelTuning | undefined;
  tell<Event extends keyof TuningEvents>(event: Event, told: TuningEvents[Event]): void;
}

export interface Tuned {
  readonly answered: Answered;
  readonly spawn: Spawn;
  attach(model: Tunable): void;
}

/** The texts of the workers of a target. */
type Sources = Readonly<Record<"measurer" | "model", string>>;

const PING_MS = 1_000;
const LATE_PING_MS = 2_000;
/** A measurer that does not answer for so long runs a candidate that hangs. */
const HANGS_MS = 4_000;
const SENT_KEPT = 50;
/** The milliseconds after which a swap is asked for again that failed as the zoo was away. */
const POSTPONED_MS = 5_000;

/**
 * A kernel that won and runs, and the winner that ran before it; null where the zoo's kernel did.
 */
interface Winner {
  readonly win: Win;
  readonly before: Winner | null;
}

const SLOWER = "It is slower in the model's runs than the kernel before.";
const ENDLESS = "A run with it did not end.";
const LOST = "The GPU was lost, and its kernels with it.";

class Tuning implements ModelTuning, Tuned {
  readonly swaps: Swap[] = [];
  readonly sent: SentRequest[] = [];
  requests = 0;
  spentMs = 0;
  measured = 0;
  contributed = 0;
  readonly #host: Host;
  #answered: Answered;
  readonly #options: TuneOptions;
  readonly #target: MeasuredTarget;
  readonly #sources: Sources;
  readonly #plain: Spawn;
  readonly #wins: Wins;
  readonly #winners = new Map<string, Winner>();
  readonly #tried = new Set<string>();
  #times: RunTimes;
  readonly #pauses = pauses(() => this.#paused());
  #watching: AbortController | undefined;
  #model: Tunable | null = null;
  #runtime: WatchedRuntime | null = null;
  #measurer: Worker | null = null;
  #contributing: Contributing | null = null;
  #contributes = false;
  #trying = "";
  /**
   * Artifacts of the row under measurement that are faster than the kernel that runs. Which of them
   * is to run is told at the end of the row.
   */
  readonly #promising = new Set<string>();
  /** Artifacts that were nearly as fast as one that won, by its artifact. */
  readonly #runnersUp = new Map<string, readonly string[]>();
  /** Runners-up of winners that do not run, as long as they have not been measured again. */
  readonly #again = new Set<string>();
  /** The time at which the measurer was asked whether it lives; null once it has said anything. */
  #askedMs: number | null = null;
  /** The time of the last ping. */
  #pingedMs = 0;
  #pinging: ReturnType<typeof setInterval> | undefined;
  #found: readonly Found[] = [];
  #swapping: readonly Found[] = [];
  #ended: string | null = null;
  /** True where measuring has ended as there was nothing left to measure. */
  #complete = false;
  #waiting = "";

  constructor(
    host: Host,
    answered: Answered,
    options: TuneOptions,
    target: MeasuredTarget,
    sources: Sources,
    plain: Spawn,
  ) {
    this.#host = host;
    this.#answered = answered;
    this.#options = options;
    this.#target = target;
    this.#sources = sources;
    this.#plain = plain;
    const { device_class, plan: its } = answered.answer;
    this.#times = new RunTimes(its, globalThis.crossOriginIsolated);
    this.#wins = new Wins(host.notes, answered.origin, device_class, navigator.userAgent);
    for (const artifact of this.#wins.avoided) this.#tried.add(artifact);
  }

  get answered(): Answered {
    return this.#answered;
  }

  get pausedBecause(): Pause | null {
    return mainPause(this.#pauses.because);
  }

  get state(): ModelTuning["state"] {
    if (this.#ended !== null) return "done";
    return this.pausedBecause === null ? "measuring" : "paused";
  }

  get reason(): string {
    const paused = this.pausedBecause;
    return this.#ended ?? (paused === null ? this.#waiting : PAUSES[paused]);
  }

  stop(): void {
    this.#end("It was stopped.");
  }

  planned(calls: readonly PlannedCall[]): readonly PlannedCall[] {
    return calls.map((call) => {
      const winner = this.#winners.get(call.workload);
      if (winner === undefined || call.fallbackReason !== null) return call;
      const { kernel, at } = winner.win;
      const since = new Date(at);
      return { ...call, candidate: kernel.candidate, level: "page", since, predictedMs: null };
    });
  }

  /** `source` is the text of the usual worker, unless that is the one for WebAssembly. */
  readonly spawn = (source?: string): RuntimeWorker => {
    if (this.#target === "webgpu" && source === undefined) {
      this.#lost();
      return this.#plain();
    }
    this.#winners.clear();
    // Kernels that were to be swapped in are measured again, against the kernels that run then.
    for (const { kernel } of [...this.#swapping, ...this.#found]) this.#tried.delete(kernel.sha256);
    this.#swapping = [];
    this.#found = [];
    let winners: ReturnType<Wins["trusted"]> = [];
    const runtime = new WatchedRuntime(this.#sources.model, {
      loads: (answer) => {
        this.#follow(answer);
        winners = this.#wins.trusted(answer);
        for (const [workload, win] of winners) this.#winners.set(workload, { win, before: null });
        // It is opened anew: a kernel of the zoo has failed, or another plan is to run.
        if (this.#model !== null && this.#ended === null) this.#measure();
        return this.#served(winners);
      },
      loaded: () => {
        if (winners.length > 0) runtime.tell(this.#comparing(winners));
      },
      runs: () => this.#look(),
      ran: (times) => this.#ran(times),
      told: (told) => this.#told(told),
      refused: () => {
        // A kernel that only this page has chosen may be at fault: it forgets them all.
        this.#wins.forget(winners.map(([workload]) => workload));
        this.#winners.clear();
        winners = [];
      },
      givesUp: (failure) => this.#givesUp(failure),
      hangs: () => this.#givesUpLast(),
      ended: () => {
        this.#quit();
        this.#withdraw();
      },
    });
    this.#runtime = runtime;
    return runtime;
  };

  /** Another plan of the model has other workloads, of which none was measured. */
  #follow(answer: LoadOrder["answer"]): void {
    const { plan } = this.#answered.answer;
    this.#answered = { ...this.#answered, answer };
    if (answer.plan === plan) return;
    this.#times = new RunTimes(answer.plan, globalThis.crossOriginIsolated);
    if (this.#complete) this.#ended = null;
    this.#complete = false;
  }

  /**
   * Gives up the kernel at fault, if only this page has chosen it, for the zoo's; answers whether
   * it did.
   */
  #givesUp({ fault }: Failure): boolean {
    if (fault === null) return false;
    const { workload, artifact, message } = fault;
    if (this.#winners.get(workload)?.win.kernel.sha256 !== artifact) return false;
    this.#avoid(artifact);
    this.#runsAgain(workload, null, message);
    return true;
  }

  /**
   * Gives up the kernels that won last where a run does not end, as nobody can say which of all it
   * is; answers whether there were any. On a GPU and for a language model none is given up: a GPU
   * has limits of its own, and a run takes as long as its text.
   */
  #givesUpLast(): boolean {
    const { decoder } = this.#answered.answer.plan;
    if (this.#target === "webgpu" || decoder !== undefined) return false;
    const lastAt = Math.max(...[...this.#winners.values()].map(({ win }) => win.at));
    const last = [...this.#winners].filter(([, { win }]) => win.at === lastAt);
    for (const [workload, { win, before }] of last) {
      this.#avoid(win.kernel.sha256);
      this.#runsAgain(workload, before, ENDLESS);
    }
    return last.length > 0;
  }

  /** Has an artifact tried no more, neither in this visit nor in another of this browser. */
  #avoid(artifact: string): void {
    this.#wins.avoid(artifact);
    this.#tried.add(artifact);
  }

  /**
   * The model runs on WebAssembly from now on; kernels that ran when the GPU was lost do not run
   * again.
   */
  #lost(): void {
    const lost = [...this.#winners.keys()];
    if (this.#trying !== "") this.#wins.avoid(this.#trying);
    this.#end(LOST);
    for (const workload of lost) this.#runsAgain(workload, null, LOST);
    this.#runtime = null;
  }

  attach(model: Tunable): void {
    this.#model = model;
    model.tuning = this;
    if (this.#ended !== null) return;
    if (this.#unsettled().length === 0) return void this.#end("All its kernels are confirmed.");
    this.#measure();
  }

  /** Watches for reasons to pause measuring for as long as there is a measurer. */
  #watch(): void {
    this.#watching = new AbortController();
    const { signal } = this.#watching;
    // The owner of an automated browser has decided.
    if (!navigator.webdriver) watchDevice(this.#pauses, signal);
    watchPage(this.#pauses, signal);
  }

  /** Starts the agent, once it is known which workloads take most time. */
  async #contribute(): Promise<void> {
    this.#contributes = true;
    const [{ Contributing }, { default: text }] = await Promise.all([
      import("./contribution.js"),
      WORKERS.agent(),
    ]);
    if (!this.#contributes) return;
    const workloads = this.#unsettled().map(([workload]) => workload);
    const { ms } = this.#times;
    workloads.sort((a, b) => (ms[b] ?? 0) - (ms[a] ?? 0));
    const { contribute } = this.#options;
    const application = typeof contribute === "object" ? contribute.application : null;
    const { origin } = this.#answered;
    const [target, leftMs] = [this.#target, this.#leftMs];
    const inTokens = this.#inTokens();
    this.#contributing = new Contributing(
      text,
      origin,
      target,
      application,
      workloads,
      inTokens,
      leftMs,
      {
        notes: this.#host.notes,
        sent: (request) => this.#sends(request),
        spent: (spentMs) => this.#spent(spentMs),
        works: (works) => this.#post({ type: "explore", explore: !works }),
        measured: (workload, candidate, expected) => {
          this.contributed += 1;
          if (expected !== null) this.#post({ type: "expected", workload, candidate, expected });
        },
        rank: (workload, finalists) => this.#runtime?.tell({ type: "rank", workload, finalists }),
        waiting: (message) => {
          this.#waiting = message;
        },
      },
    );
    this.#paused();
  }

  /**
   * The workloads that a token of a language model runs on a GPU, where the model's worker can time
   * whole tokens with one kernel or another; elsewhere none.
   */
  #inTokens(): readonly string[] {
    const { decoder, calls, kernels } = this.#answered.answer.plan;
    if (decoder === undefined || this.#target !== "webgpu") return [];
    const run = calls.slice(decoder.step).map(({ kernel }) => kernels[kernel] as string);
    return [...new Set(run)];
  }

  get #shares(): boolean {
    return (this.#options.contribute ?? false) !== false;
  }

  get #leftMs(): number {
    return (this.#options.budgetMs ?? Number.POSITIVE_INFINITY) - this.spentMs;
  }

  #spent(ms: number): void {
    this.spentMs += ms;
    if (this.#leftMs <= 0) this.#end("The budget of this visit is spent.");
  }

  #sends(request: SentRequest): void {
    this.requests += 1;
    this.sent.push(request);
    this.sent.splice(0, this.sent.length - SENT_KEPT);
  }

  #unsettled(): readonly (readonly [string, ServedKernel])[] {
    const { kernels } = this.#answered.answer;
    return Object.entries(kernels).filter(([, { state }]) => state !== "confirmed");
  }

  /** The answer of the zoo with the kernels that won here; the answer itself where there are none. */
  #served(winners: ReturnType<Wins["trusted"]>): LoadOrder["answer"] {
    const { answer } = this.#answered;
    if (winners.length === 0) return answer;
    const won = winners.map(([workload, { kernel }]) => [
      workload,
      { ...(answer.kernels[workload] as ServedKernel), kernel },
    ]);
    return { ...answer, kernels: { ...answer.kernels, ...Object.fromEntries(won) } };
  }

  /**
   * Names the zoo's kernels for the workloads whose kernel won in an earlier visit, so that each is
   * run beside its winner now and then.
   */
  #comparing(winners: ReturnType<Wins["trusted"]>): ToTuned {
    const { kernels } = this.#answered.answer;
    const comparisons = winners.map(([workload, win]) => {
      const { kernel } = kernels[workload] as ServedKernel;
      return { workload, running: win.kernel.sha256, kernel };
    });
    return { type: "compare", comparisons };
  }

  #runningOf(workload: string): Running {
    const served = this.#answered.answer.kernels[workload] as ServedKernel;
    const kernel = this.#winners.get(workload)?.win.kernel ?? served.kernel;
    return { workload, kernel, tolerance: served.tolerance };
  }

  /** Starts the worker that measures. */
  #measure(): void {
    this.#watch();
    const { answer, origin } = this.#answered;
    const { hardware } = this.#host;
    const path = [answer.name, answer.device_class].map(encodeURIComponent).join("/");
    const candidates = new URL(`./v1/models/${path}/candidates`, origin);
    for (const [axis, extent] of Object.entries(answer.plan.dimensions)) {
      candidates.searchParams.set(axis, `${extent}`);
    }
    if (hardware !== null) candidates.searchParams.set("hardware", JSON.stringify(hardware));
    const kept = this.#wins.unproven(answer);
    this.#measurer = workerOf(this.#sources.measurer, "kernelzoo tuner");
    this.#measurer.onmessage = ({ data }: MessageEvent<FromMeasurer>) => this.#heard(data);
    this.#measurer.onerror = () => this.#end("The tuner's worker does not start.");
    this.#post({
      type: "measure",
      order: {
        origin,
        candidates: candidates.href,
        running: this.#unsettled().map(([workload]) => this.#runningOf(workload)),
        kept: kept.map(([workload, { kernel }]) => ({ workload, kernel })),
        tried: [...this.#tried],
        budgetMs: this.#leftMs,
        contributes: this.#shares,
      },
    });
    this.#tellTimes();
    this.#askedMs = null;
    this.#pingedMs = performance.now();
    this.#pinging = setInterval(() => this.#ping(), PING_MS);
    this.#look();
  }

  #post(message: ToMeasurer): void {
    this.#measurer?.postMessage(message);
  }

  #ping(): void {
    const now = performance.now();
    // A page that was frozen has heard nothing meanwhile: it asks once more.
    if (now - this.#pingedMs > LATE_PING_MS) this.#askedMs = null;
    this.#pingedMs = now;
    if (this.#askedMs !== null && now - this.#askedMs > HANGS_MS) return void this.#hangs();
    this.#askedMs ??= now;
    this.#post({ type: "ping" });
  }

  /**
   * Ends the measurer, which a candidate holds up, and starts another that leaves that candidate
   * out.
   */
  #hangs(): void {
    this.#quit();
    if (this.#trying === "") return void this.#end("The tuner's worker does not answer.");
    for (const artifact of this.#promising) this.#tried.delete(artifact);
    this.#promising.clear();
    this.#tried.add(this.#trying);
    this.#trying = "";
    this.measured += 1;
    this.#measure();
  }

  #quit(): void {
    this.#watching?.abort();
    clearInterval(this.#pinging);
    this.#measurer?.terminate();
    this.#measurer = null;
  }

  #end(reason: string, complete = false): void {
    this.#ended ??= reason;
    this.#complete = complete;
    this.#quit();
    this.#withdraw();
  }

  #withdraw(): void {
    this.#contributing?.stop();
    this.#contributing = null;
    this.#contributes = false;
  }

  /** Lets the measurer work while nothing else does. */
  #look(): void {
    const busy = this.#runtime?.busy === true;
    this.#post({ type: busy || this.#pauses.because.size > 0 ? "rest" : "go" });
    this.#contributing?.giveWay(busy);
  }

  #paused(): void {
    this.#contributing?.pause(this.pausedBecause);
    this.#look();
  }

  #ran(times: CallTimes): void {
    for (const workload of this.#times.ran(times)) {
      const replaced = this.#swapping.some((each) => each.workload === workload);
      if (replaced || !this.#winners.has(workload)) continue;
      this.#runtime?.tell({ type: "take-back", workload, reason: SLOWER });
    }
    this.#tellTimes();
    if (this.#shares && this.#ended === null && !this.#contributes) void this.#contribute();
  }

  #tellTimes(): void {
    this.#post({ type: "times", ms: this.#times.ms });
  }

  #heard(data: FromMeasurer): void {
    this.#askedMs = null;
    switch (data.type) {
      case "pong":
        return;
      case "trying":
        this.#trying = data.artifact;
        return;
      case "measured":
        this.measured += 1;
        this.#waiting = "";
        this.#trying = "";
        this.#tried.add(data.artifact);
        this.#again.delete(data.artifact);
        if (data.relativeTime !== null && data.relativeTime < 1) this.#promising.add(data.artifact);
        return;
      case "found":
        this.#found = [...this.#found, data.found];
        this.#runnersUp.set(data.found.kernel.sha256, data.runnersUp);
        this.#swap();
        return;
      case "spent":
        this.#trying = "";
        this.#promising.clear();
        this.#spent(data.ms);
        return;
      case "sent":
        this.#sends(data.request);
        return;
      case "waiting":
        this.#waiting = data.message;
        return;
      case "ended":
        this.#end(data.reason, data.complete);
        return void this.#goOn();
      default:
        data satisfies never;
    }
  }

  #swap(): void {
    if (this.#swapping.length > 0 || this.#found.length === 0) return;
    // Of several of one workload the last is the fastest.
    const last = new Map(this.#found.map((found) => [found.workload, found]));
    this.#swapping = [...last.values()];
    this.#found = [];
    this.#runtime?.tell({ type: "swap", swaps: this.#swapping });
  }

  #told(told: FromTuned): void {
    if (told.type === "regression") return void this.#regressed(told);
    if (told.type === "timed") return void this.#ran(told.times);
    if (told.type === "ranked") return void this.#contributing?.ranked(told.times);
    if (told.type === "postponed") return void this.#postponed(told.reason);
    const since = new Date();
    for (const [i, found] of this.#swapping.entries()) {
      const { workload } = found;
      if (told.refused[i] === null) this.#swapped(found, since);
      else this.#without(found.kernel.sha256, workload);
    }
    this.#swapping = [];
    this.#swap();
  }

  #postponed(reason: string): void {
    this.#waiting = reason;
    this.#found = [...this.#swapping, ...this.#found];
    this.#swapping = [];
    setTimeout(() => this.#swap(), POSTPONED_MS);
  }

  #swapped({ workload, kernel, relativeTime }: Found, since: Date): void {
    const { candidate: before } = this.#runningOf(workload).kernel;
    const over = this.#answered.answer.kernels[workload]?.kernel.sha256 as string;
    const win = { kernel, over, relativeTime, at: since.getTime() };
    this.#winners.set(workload, { win, before: this.#winners.get(workload) ?? null });
    this.#times.swapped(workload, relativeTime);
    this.#wins.keep(workload, win);
    const swap = { workload, candidate: kernel.candidate, before, relativeTime, since };
    this.swaps.push(swap);
    this.#model?.tell("swap", swap);
  }

  #regressed({ workload, reason, again }: Extract<FromTuned, { type: "regression" }>): void {
    const winner = this.#winners.get(workload);
    // A kernel that was slower in this visit may be faster in another, but a wrong one stays wrong.
    if (winner && reason !== SLOWER) this.#avoid(winner.win.kernel.sha256);
    let before = winner?.before ?? null;
    while (before !== null && before.win.kernel.sha256 !== again) before = before.before;
    this.#runsAgain(workload, before, reason);
  }

  /** Has the kernel `before` run in the place of a winner; null where that is the zoo's kernel. */
  #runsAgain(workload: string, before: Winner | null, reason: string): void {
    const { candidate, sha256 } = this.#runningOf(workload).kernel;
    if (before === null) {
      this.#winners.delete(workload);
      this.#wins.forget([workload]);
    } else {
      this.#winners.set(workload, before);
      this.#wins.keep(workload, before.win);
    }
    this.#times.takenBack(workload);
    this.#without(sha256, workload);
    this.#model?.tell("regression", { workload, candidate, reason });
  }

  /**
   * Goes on without a kernel that won: those that were nearly as fast are tried against the one
   * that runs.
   */
  #without(artifact: string, workload: string): void {
    const running = this.#runningOf(workload);
    for (const each of this.#runnersUp.get(artifact) ?? []) {
      if (each === running.kernel.sha256) continue;
      this.#tried.delete(each);
      this.#again.add(each);
    }
    this.#post({ type: "running", running });
    this.#goOn();
  }

  /** Measures anew where that has ended before runners-up had another turn. */
  #goOn(): void {
    if (!this.#complete || this.#again.size === 0) return;
    this.#again.clear();
    this.#complete = false;
    this.#ended = null;
    this.#measure();
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
  return new Tuning(host, answered, options, target, sources, plain);
}
