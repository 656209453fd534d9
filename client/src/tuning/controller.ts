/**
 * The decisions of a tuner: `step` takes an event and answers the state after it, with what is to be
 * done. It does nothing itself, and asks neither a clock nor the page; `tuner` does both.
 */
import type {
  AgentEvent,
  FromWorker as FromAgent,
  ToWorker as ToAgent,
} from "../agent/messages.js";
import { mainPause, PAUSES, type Pause } from "../agent/pauses.js";
import type { SentRequest } from "../agent/request-log.js";
import type { Failure } from "../executor/messages.js";
import type { PlannedCall } from "../model/planned-calls.js";
import type { Answered } from "../model/request.js";
import type { ModelAnswer, PlanWire } from "../wire/model-answer.js";
import type { MeasuredTarget, ServedKernel } from "../wire/types.js";
import type {
  FromMeasurer,
  FromTuned,
  MeasureOrder,
  Running,
  ToMeasurer,
  ToTuned,
  Winner,
} from "./messages.js";
import type { ModelTuning, Regression, Swap } from "./page-view.js";
import type { Win, Wins } from "./win-cache.js";

/** A measurer that was asked so long after the time before was held up, as its page was frozen. */
const LATE_PING_MS = 2_000;
/** A measurer that does not answer for so long runs a candidate that hangs. */
const HANGS_MS = 4_000;
const SENT_KEPT = 50;

const SLOWER = "It is slower in the model's runs than the kernel before.";
const ENDLESS = "A run with it did not end.";
const LOST = "The GPU was lost, and its kernels with it.";

/**
 * A kernel that won and runs, and the winner that ran before it; null where the zoo's kernel did.
 */
interface SwappedWin {
  readonly win: Win;
  readonly before: SwappedWin | null;
}

export type TrustedWins = ReturnType<Wins["trusted"]>;

/** A measurer that works, and when it was asked whether it lives. */
interface WatchedMeasurer {
  /** Null once it has said anything since. */
  readonly askedMs: number | null;
  /** The time of the last ping. */
  readonly pingedMs: number | null;
}

/** The terms of a visit, which do not change. */
interface TuningTerms {
  readonly target: MeasuredTarget;
  readonly budgetMs: number;
  /** True where this page is an agent, too. */
  readonly contributes: boolean;
}

export interface TuningState {
  readonly terms: TuningTerms;
  readonly answered: Answered;
  /** The page has its model, whose workers may be started anew. */
  readonly isAttached: boolean;
  /** An inference is under way. */
  readonly isBusy: boolean;
  readonly pausedBy: ReadonlySet<Pause>;
  readonly measurer: WatchedMeasurer | null;
  readonly agent: "none" | "loading" | "working";
  /** Kernels of earlier visits that the model was loaded with. */
  readonly trusted: TrustedWins;
  readonly winners: ReadonlyMap<string, SwappedWin>;
  readonly tried: ReadonlySet<string>;
  /** Artifacts that were refused or taken back: none is tried again, whatever else happens. */
  readonly barred: ReadonlySet<string>;
  /** The artifact that the measurer tried last, until it is known what came of it. */
  readonly trying: string | null;
  /**
   * Artifacts of the row under measurement that are faster than the kernel that runs. Which of them
   * is to run is told at the end of the row.
   */
  readonly promising: ReadonlySet<string>;
  /** Artifacts that were nearly as fast as one that won, by its artifact. */
  readonly runnersUp: ReadonlyMap<string, readonly string[]>;
  /** Runners-up of winners that do not run, as long as they have not been measured again. */
  readonly again: ReadonlySet<string>;
  /** Kernels that won and are to be swapped in, and those that the model's worker swaps in now. */
  readonly unswapped: readonly Winner[];
  readonly swapping: readonly Winner[];
  /** `isComplete`: there was nothing left to measure. */
  readonly end: { readonly reason: string; readonly isComplete: boolean } | null;
  readonly waiting: string;
  readonly swaps: readonly Swap[];
  readonly sent: readonly SentRequest[];
  readonly requests: number;
  readonly spentMs: number;
  readonly measured: number;
  readonly contributed: number;
}

export type TuningEvent =
  /** The page starts a worker of the model. */
  | { readonly type: "spawned" }
  /** The page starts a worker for WebAssembly, as the GPU was lost. */
  | { readonly type: "gpu-lost" }
  /** The worker is to load an answer; `trusted` are the kernels of earlier visits to it. */
  | { readonly type: "loads"; readonly answer: ModelAnswer; readonly trusted: TrustedWins }
  | { readonly type: "loaded" }
  /** The model does not load with the kernels of earlier visits. */
  | { readonly type: "refused" }
  /** An inference was asked for, or the last one has ended. */
  | { readonly type: "runs"; readonly isBusy: boolean }
  /** A run has told its times: these workloads run a slower kernel than before. */
  | {
      readonly type: "ran";
      readonly slower: readonly string[];
      /** Milliseconds of an inference by workload. */
      readonly ms: Readonly<Record<string, number>>;
    }
  | { readonly type: "failed"; readonly failure: Failure }
  /** A run does not end. */
  | { readonly type: "hangs" }
  /** The page has ended the model's worker. */
  | { readonly type: "terminated" }
  | { readonly type: "attached" }
  /** The text of the agent's worker is here. */
  | { readonly type: "agent-loaded"; readonly text: string }
  | { readonly type: "stop" }
  | { readonly type: "paused"; readonly by: ReadonlySet<Pause> }
  /** It is time to ask whether the measurer lives. */
  | { readonly type: "ping"; readonly nowMs: number }
  | { readonly type: "measurer-failed" }
  | { readonly type: "agent-failed" }
  /** It is time to ask for a swap again that was postponed. */
  | { readonly type: "swap-due" }
  | { readonly type: "measurer"; readonly message: FromMeasurer }
  /** `atMs`: milliseconds since 1970. */
  | { readonly type: "model"; readonly message: FromModel; readonly atMs: number }
  | { readonly type: "agent"; readonly message: FromAgent };

/** Times that the model's worker tells become an event `ran`. */
export type FromModel = Exclude<FromTuned, { readonly type: "timed" }>;

/** The part of an order that depends on the state. */
export type Measure = Omit<MeasureOrder, "origin" | "candidates" | "kept">;

export type Effect =
  | { readonly type: "measure"; readonly order: Measure }
  | { readonly type: "quit" }
  /** Has an event `agent-loaded` come. */
  | { readonly type: "load-agent" }
  | { readonly type: "start-agent"; readonly text: string }
  | { readonly type: "withdraw" }
  | { readonly type: "tell-measurer"; readonly message: ToMeasurer }
  | { readonly type: "tell-model"; readonly message: ToTuned }
  | { readonly type: "tell-agent"; readonly message: ToAgent }
  | { readonly type: "tell-swap"; readonly swap: Swap }
  | { readonly type: "tell-regression"; readonly regression: Regression }
  /** Notes of this browser for its next visit. */
  | { readonly type: "keep"; readonly workload: string; readonly win: Win }
  | { readonly type: "forget"; readonly workloads: readonly string[] }
  | { readonly type: "avoid"; readonly artifact: string }
  | { readonly type: "note"; readonly key: string; readonly value: string }
  /** The times of runs are those of another plan, or of other kernels, from now on. */
  | { readonly type: "time-plan"; readonly plan: PlanWire }
  | { readonly type: "time-swap"; readonly workload: string; readonly relativeTime: number }
  | { readonly type: "time-before"; readonly workload: string }
  /** Has an event `swap-due` come after a while. */
  | { readonly type: "postpone" };

export type Step = readonly [state: TuningState, effects: readonly Effect[]];

/** A part of a step. */
type Change = (state: TuningState) => Step;

const nothing: Change = (state) => [state, []];

const set =
  (changed: Partial<TuningState>): Change =>
  (state) => [{ ...state, ...changed }, []];

const effect =
  (...effects: readonly Effect[]): Change =>
  (state) => [state, effects];

const inTurn =
  (...changes: readonly Change[]): Change =>
  (state) =>
    changes.reduce<Step>(
      ([before, effects], change) => {
        const [after, more] = change(before);
        return [after, [...effects, ...more]];
      },
      [state, []],
    );

const withThese = <T>(known: ReadonlySet<T>, more: Iterable<T>): ReadonlySet<T> =>
  new Set([...known, ...more]);

const without = <T>(known: ReadonlySet<T>, fewer: readonly T[]): ReadonlySet<T> =>
  new Set([...known].filter((value) => !fewer.includes(value)));

export function initialState(
  answered: Answered,
  terms: TuningTerms,
  avoided: readonly string[],
): TuningState {
  return {
    terms,
    answered,
    ...{ isAttached: false, isBusy: false, pausedBy: new Set() },
    ...{ measurer: null, agent: "none", trusted: [], winners: new Map() },
    ...{ tried: new Set(avoided), barred: new Set(), trying: null, promising: new Set() },
    ...{ runnersUp: new Map(), again: new Set(), unswapped: [], swapping: [] },
    ...{ end: null, waiting: "", swaps: [], sent: [], requests: 0 },
    ...{ spentMs: 0, measured: 0, contributed: 0 },
  };
}

export function tuningState({ end, pausedBy }: TuningState): ModelTuning["state"] {
  if (end !== null) return "done";
  return pausedBy.size === 0 ? "measuring" : "paused";
}

export function reasonFor({ end, pausedBy, waiting }: TuningState): string {
  const pause = mainPause(pausedBy);
  return end?.reason ?? (pause === null ? waiting : PAUSES[pause]);
}

/** The calls of a plan as they run now. */
export const callsWithWinners = (
  { winners }: TuningState,
  calls: readonly PlannedCall[],
): readonly PlannedCall[] =>
  calls.map((call) => {
    const winner = winners.get(call.workload);
    if (winner === undefined || call.fallbackReason !== null) return call;
    const { kernel, at } = winner.win;
    const since = new Date(at);
    return { ...call, candidate: kernel.candidate, level: "page", since, predictedMs: null };
  });

/** The answer of the zoo with kernels of earlier visits; the answer itself where there are none. */
export function answerWithTrusted({ answered: { answer }, trusted }: TuningState): ModelAnswer {
  if (trusted.length === 0) return answer;
  const won = trusted.map(([workload, { kernel }]) => [
    workload,
    { ...(answer.kernels[workload] as ServedKernel), kernel },
  ]);
  return { ...answer, kernels: { ...answer.kernels, ...Object.fromEntries(won) } };
}

const isUnsettled = ([, { state }]: readonly [string, ServedKernel]): boolean =>
  state !== "confirmed";

/** Workloads whose kernel the zoo has not confirmed. */
export const unsettled = ({ answered }: TuningState): readonly string[] =>
  Object.entries(answered.answer.kernels)
    .filter(isUnsettled)
    .map(([workload]) => workload);

/**
 * The workloads that a token of a language model runs on a GPU, where the model's worker can time
 * whole tokens with one kernel or another; elsewhere none.
 */
export function timedInTokens({ answered, terms }: TuningState): readonly string[] {
  const { decoder, calls, kernels } = answered.answer.plan;
  if (decoder === undefined || terms.target !== "webgpu") return [];
  return [...new Set(calls.slice(decoder.step).map(({ kernel }) => kernels[kernel] as string))];
}

export const leftMs = ({ terms, spentMs }: TuningState): number => terms.budgetMs - spentMs;

/** Says whether a kernel that only this page has chosen is at fault. */
export const isAtFault = ({ winners }: TuningState, { fault }: Failure): boolean =>
  fault !== null && winners.get(fault.workload)?.win.kernel.sha256 === fault.artifact;

/**
 * The kernels that won last, which are given up where a run does not end, as nobody can say which of
 * all it is. On a GPU and for a language model none is: a GPU has limits of its own, and a run takes
 * as long as its text.
 */
export function suspects({
  answered,
  terms,
  winners,
}: TuningState): readonly [string, SwappedWin][] {
  if (terms.target === "webgpu" || answered.answer.plan.decoder !== undefined) return [];
  const lastAt = Math.max(...[...winners.values()].map(({ win }) => win.at));
  return [...winners].filter(([, { win }]) => win.at === lastAt);
}

function runningOf({ answered, winners }: TuningState, workload: string): Running {
  const served = answered.answer.kernels[workload] as ServedKernel;
  const kernel = winners.get(workload)?.win.kernel ?? served.kernel;
  return { workload, kernel, tolerance: served.tolerance };
}

const tellMeasurer =
  (message: ToMeasurer): Change =>
  (state) => [state, state.measurer === null ? [] : [{ type: "tell-measurer", message }]];

const tellAgent =
  (message: ToAgent): Change =>
  (state) => [state, state.agent === "working" ? [{ type: "tell-agent", message }] : []];

/** Lets the measurer work while nothing else does. */
const giveWay: Change = (state) => {
  const { isBusy, pausedBy } = state;
  return inTurn(
    tellMeasurer({ type: isBusy || pausedBy.size > 0 ? "rest" : "go" }),
    tellAgent({ type: "give-way", busy: isBusy }),
  )(state);
};

const pausesAgent: Change = (state) => {
  const why = mainPause(state.pausedBy);
  return tellAgent(why === null ? { type: "resume" } : { type: "pause", why })(state);
};

const quit: Change = (state) =>
  state.measurer === null ? [state, []] : [{ ...state, measurer: null }, [{ type: "quit" }]];

const withdraw: Change = (state) => [
  { ...state, agent: "none" },
  state.agent === "working" ? [{ type: "withdraw" }] : [],
];

/** Has artifacts tried, unless they were refused or taken back. */
const untried =
  (artifacts: readonly string[]): Change =>
  (state) => {
    const open = artifacts.filter((artifact) => !state.barred.has(artifact));
    return [{ ...state, tried: without(state.tried, open) }, []];
  };

/**
 * Starts a measurer. Of a row that another has not ended nobody knows which kernel is to run: its
 * promising ones are measured again.
 */
const measure: Change = (before) => {
  const [state, effects] = inTurn(quit, untried([...before.promising]))(before);
  const order: Measure = {
    running: unsettled(state).map((workload) => runningOf(state, workload)),
    tried: [...state.tried],
    budgetMs: leftMs(state),
    contributes: state.terms.contributes,
  };
  const [after, more] = inTurn(
    set({ measurer: { askedMs: null, pingedMs: null }, trying: null, promising: new Set() }),
    effect({ type: "measure", order }),
    giveWay,
  )(state);
  return [after, [...effects, ...more]];
};

const ends = (reason: string, isComplete = false): Change =>
  inTurn(
    (state) => [{ ...state, end: { reason: state.end?.reason ?? reason, isComplete } }, []],
    quit,
    withdraw,
  );

/** Measures anew where that has ended before runners-up had another turn. */
const goOn: Change = (state) =>
  state.end?.isComplete === true && state.again.size > 0
    ? inTurn(set({ again: new Set(), end: null }), measure)(state)
    : [state, []];

/**
 * Goes on without a kernel that won: those that were nearly as fast are tried against the one that
 * runs.
 */
const goesOnWithout =
  (lost: string, workload: string): Change =>
  (before) => {
    const running = runningOf(before, workload);
    const barred = withThese(before.barred, [lost]);
    const open = (before.runnersUp.get(lost) ?? []).filter(
      (artifact) => artifact !== running.kernel.sha256 && !barred.has(artifact),
    );
    return inTurn(
      set({ barred, tried: withThese(before.tried, [lost]), again: withThese(before.again, open) }),
      untried(open),
      tellMeasurer({ type: "running", running, lost }),
      goOn,
    )(before);
  };

/** Has the kernel `before` run in the place of a winner; null where that is the zoo's kernel. */
const runsAgain =
  (workload: string, before: SwappedWin | null, reason: string): Change =>
  (state) => {
    const { candidate, sha256 } = runningOf(state, workload).kernel;
    const winners = new Map(state.winners);
    if (before === null) winners.delete(workload);
    else winners.set(workload, before);
    return inTurn(
      set({ winners }),
      effect(
        before === null
          ? { type: "forget", workloads: [workload] }
          : { type: "keep", workload, win: before.win },
        { type: "time-before", workload },
      ),
      goesOnWithout(sha256, workload),
      effect({ type: "tell-regression", regression: { workload, candidate, reason } }),
    )(state);
  };

const avoid = (artifact: string): Change => effect({ type: "avoid", artifact });

const swap: Change = (state) => {
  if (state.swapping.length > 0 || state.unswapped.length === 0) return [state, []];
  // Of several of one workload the last is the fastest.
  const swapping = [...new Map(state.unswapped.map((win) => [win.workload, win])).values()];
  return [
    { ...state, swapping, unswapped: [] },
    [{ type: "tell-model", message: { type: "swap", swaps: swapping } }],
  ];
};

const swapped =
  ({ workload, kernel, relativeTime }: Winner, atMs: number): Change =>
  (state) => {
    const { candidate: before } = runningOf(state, workload).kernel;
    const over = state.answered.answer.kernels[workload]?.kernel.sha256 as string;
    const win: Win = { kernel, over, relativeTime, at: atMs };
    const winner = { win, before: state.winners.get(workload) ?? null };
    const { candidate } = kernel;
    const swap = { workload, candidate, before, relativeTime, since: new Date(atMs) };
    return [
      {
        ...state,
        winners: new Map(state.winners).set(workload, winner),
        swaps: [...state.swaps, swap],
      },
      [
        { type: "time-swap", workload, relativeTime },
        { type: "keep", workload, win },
        { type: "tell-swap", swap },
      ],
    ];
  };

const spends =
  (ms: number): Change =>
  (before) => {
    const state = { ...before, spentMs: before.spentMs + ms };
    return leftMs(state) > 0 ? [state, []] : ends("The budget of this visit is spent.")(state);
  };

const sends =
  (request: SentRequest): Change =>
  (state) => [
    {
      ...state,
      requests: state.requests + 1,
      sent: [...state.sent, request].slice(-SENT_KEPT),
    },
    [],
  ];

/**
 * Ends the measurer, which a candidate holds up, and starts another that leaves that candidate
 * out.
 */
const hangs: Change = (state) =>
  state.trying === null
    ? ends("The tuner's worker does not answer.")(state)
    : inTurn(
        set({ tried: withThese(state.tried, [state.trying]), measured: state.measured + 1 }),
        measure,
      )(state);

const pings =
  (nowMs: number): Change =>
  (state) => {
    if (state.measurer === null) return [state, []];
    const { askedMs: before, pingedMs } = state.measurer;
    // A page that was frozen has heard nothing meanwhile: it asks once more.
    const askedMs = pingedMs !== null && nowMs - pingedMs > LATE_PING_MS ? null : before;
    if (askedMs !== null && nowMs - askedMs > HANGS_MS) return hangs(state);
    return inTurn(
      set({ measurer: { askedMs: askedMs ?? nowMs, pingedMs: nowMs } }),
      tellMeasurer({ type: "ping" }),
    )(state);
  };

/** Another plan of the model has other workloads, of which none was measured. */
const follows =
  (answer: ModelAnswer): Change =>
  (before) => {
    const state = { ...before, answered: { ...before.answered, answer } };
    if (answer.plan === before.answered.answer.plan) return [state, []];
    const end = state.end?.isComplete === true ? null : state.end;
    return [{ ...state, end }, [{ type: "time-plan", plan: answer.plan }]];
  };

const loads =
  (answer: ModelAnswer, trusted: TrustedWins): Change =>
  (state) =>
    inTurn(
      follows(answer),
      set({
        trusted,
        winners: new Map(trusted.map(([workload, win]) => [workload, { win, before: null }])),
      }),
      // It is opened anew: a kernel of the zoo has failed, or another plan is to run.
      (loaded) => (loaded.isAttached && loaded.end === null ? measure(loaded) : [loaded, []]),
    )(state);

/**
 * Names the zoo's kernels for the workloads whose kernel won in an earlier visit, so that each is
 * run beside its winner now and then.
 */
const compares: Change = (state) => {
  if (state.trusted.length === 0) return [state, []];
  const { kernels } = state.answered.answer;
  const comparisons = state.trusted.map(([workload, win]) => {
    const { kernel } = kernels[workload] as ServedKernel;
    return { workload, running: win.kernel.sha256, kernel };
  });
  return [state, [{ type: "tell-model", message: { type: "compare", comparisons } }]];
};

/** Kernels that were to be swapped in are measured again, against the kernels that run then. */
const spawns: Change = (state) =>
  inTurn(
    set({ winners: new Map(), trusted: [], swapping: [], unswapped: [], isBusy: false }),
    untried([...state.swapping, ...state.unswapped].map(({ kernel }) => kernel.sha256)),
  )(state);

/**
 * The model runs on WebAssembly from now on; kernels that ran when the GPU was lost do not run
 * again.
 */
const losesGpu: Change = (state) =>
  inTurn(
    state.trying === null ? nothing : avoid(state.trying),
    ends(LOST),
    ...[...state.winners.keys()].map((workload) => runsAgain(workload, null, LOST)),
    set({ swapping: [], unswapped: [], isBusy: false }),
  )(state);

const ran =
  (slower: readonly string[], ms: Readonly<Record<string, number>>): Change =>
  (state) => {
    const { winners, swapping, terms, end, agent } = state;
    const isReplaced = (key: string) => swapping.some(({ workload }) => workload === key);
    const losers = slower.filter((workload) => winners.has(workload) && !isReplaced(workload));
    return inTurn(
      effect(
        ...losers.map((workload): Effect => {
          return { type: "tell-model", message: { type: "take-back", workload, reason: SLOWER } };
        }),
      ),
      tellMeasurer({ type: "times", ms }),
      // Only now is it known which workloads take most time.
      terms.contributes && end === null && agent === "none"
        ? inTurn(set({ agent: "loading" }), effect({ type: "load-agent" }))
        : nothing,
    )(state);
  };

const attaches: Change = (before) => {
  const state = { ...before, isAttached: true };
  if (state.end !== null) return [state, []];
  if (unsettled(state).length === 0) return ends("All its kernels are confirmed.")(state);
  return measure(state);
};

const givesUp =
  (workload: string, { win }: SwappedWin, before: SwappedWin | null, reason: string): Change =>
  (state) =>
    inTurn(avoid(win.kernel.sha256), runsAgain(workload, before, reason))(state);

const regresses =
  ({ workload, reason, again }: Extract<FromModel, { type: "regression" }>): Change =>
  (state) => {
    const winner = state.winners.get(workload);
    if (winner === undefined) return [state, []];
    let { before } = winner;
    while (before !== null && before.win.kernel.sha256 !== again) before = before.before;
    // A kernel that was slower in this visit may be faster in another, but a wrong one stays wrong.
    const change = reason === SLOWER ? runsAgain(workload, before, reason) : null;
    return (change ?? givesUp(workload, winner, before, reason))(state);
  };

/** Each measured kernel is heard of in turn, and what it says shows that the measurer lives. */
function fromMeasurer(state: TuningState, message: FromMeasurer): Change {
  switch (message.type) {
    case "pong":
      return nothing;
    case "trying":
      return set({ trying: message.artifact });
    case "measured": {
      const { artifact, relativeTime } = message;
      const isFaster = relativeTime !== null && relativeTime < 1;
      return set({
        ...{ measured: state.measured + 1, waiting: "", trying: null },
        tried: withThese(state.tried, [artifact]),
        again: without(state.again, [artifact]),
        promising: withThese(state.promising, isFaster ? [artifact] : []),
      });
    }
    case "found": {
      const { winner, runnersUp } = message;
      return inTurn(
        set({
          runnersUp: new Map(state.runnersUp).set(winner.kernel.sha256, runnersUp),
          unswapped: [...state.unswapped, winner],
        }),
        swap,
      );
    }
    case "spent":
      return inTurn(set({ trying: null, promising: new Set() }), spends(message.ms));
    case "sent":
      return sends(message.request);
    case "waiting":
      return set({ waiting: message.message });
    case "ended":
      return inTurn(ends(message.reason, message.complete), goOn);
  }
  return message satisfies never;
}

function fromModel(state: TuningState, message: FromModel, atMs: number): Change {
  switch (message.type) {
    case "regression":
      return regresses(message);
    case "ranked":
      return tellAgent({ type: "ranked", times: message.times });
    case "postponed":
      return inTurn(
        set({
          waiting: message.reason,
          unswapped: [...state.swapping, ...state.unswapped],
          swapping: [],
        }),
        effect({ type: "postpone" }),
      );
    case "swapped":
      return inTurn(
        ...state.swapping.map((win, i) =>
          message.refused[i] === null
            ? swapped(win, atMs)
            : goesOnWithout(win.kernel.sha256, win.workload),
        ),
        set({ swapping: [] }),
        swap,
      );
  }
  return message satisfies never;
}

function fromAgent(message: FromAgent): Change {
  switch (message.type) {
    case "sent":
      return sends(message.request);
    case "spent":
      return spends(message.ms);
    case "note":
      return effect(message);
    case "rank":
      return effect({ type: "tell-model", message });
    case "event":
      return agentTells(message.event);
    case "acquire-turn":
    case "release-turn":
      return nothing; // It was started without a host that lends turns.
  }
  return message satisfies never;
}

/** An agent that has work tries what nobody has tried, and the measurer does not. */
const agentWorks = (works: boolean): Change => tellMeasurer({ type: "explore", explore: !works });

function agentTells(event: AgentEvent): Change {
  switch (event.type) {
    case "lease":
      return agentWorks(true);
    case "idle":
      return agentWorks(false);
    case "error":
      return inTurn(agentWorks(false), set({ waiting: event.message }));
    case "refused":
      return inTurn(agentWorks(false), set({ waiting: event.reason }));
    case "measured": {
      const { workload, candidate, relativeTime: expected } = event;
      const expects: Change =
        expected === null
          ? nothing
          : tellMeasurer({ type: "expected", workload, candidate, expected });
      return inTurn((state) => [{ ...state, contributed: state.contributed + 1 }, []], expects);
    }
    default:
      return nothing;
  }
}

function changeBy(state: TuningState, event: TuningEvent): Change {
  switch (event.type) {
    case "spawned":
      return spawns;
    case "gpu-lost":
      return losesGpu;
    case "loads":
      return loads(event.answer, event.trusted);
    case "loaded":
      return compares;
    case "refused":
      // A kernel that only this page has chosen may be at fault: it forgets them all.
      return inTurn(
        effect({ type: "forget", workloads: state.trusted.map(([workload]) => workload) }),
        set({ winners: new Map(), trusted: [] }),
      );
    case "runs":
      return inTurn(set({ isBusy: event.isBusy }), giveWay);
    case "ran":
      return ran(event.slower, event.ms);
    case "failed": {
      const { fault } = event.failure;
      if (fault === null || !isAtFault(state, event.failure)) return nothing;
      const { workload, message } = fault;
      return givesUp(workload, state.winners.get(workload) as SwappedWin, null, message);
    }
    case "hangs":
      return inTurn(
        ...suspects(state).map(([workload, winner]) =>
          givesUp(workload, winner, winner.before, ENDLESS),
        ),
      );
    case "terminated":
      return inTurn(set({ isBusy: false }), quit, withdraw);
    case "attached":
      return attaches;
    case "stop":
      return ends("It was stopped.");
    case "paused":
      return inTurn(set({ pausedBy: event.by }), pausesAgent, giveWay);
    case "ping":
      return pings(event.nowMs);
    case "measurer-failed":
      return ends("The tuner's worker does not start.");
    case "agent-loaded":
      if (state.agent !== "loading") return nothing;
      return inTurn(
        set({ agent: "working" }),
        effect({ type: "start-agent", text: event.text }),
        pausesAgent,
        giveWay,
      );
    case "agent-failed":
      return inTurn(agentWorks(false), set({ waiting: "The agent's worker does not start." }));
    case "swap-due":
      return swap;
    case "measurer":
      if (state.measurer === null) return nothing;
      return inTurn(
        set({ measurer: { ...state.measurer, askedMs: null } }),
        fromMeasurer(state, event.message),
      );
    case "model":
      return fromModel(state, event.message, event.atMs);
    case "agent":
      return state.agent === "working" ? fromAgent(event.message) : nothing;
  }
  return event satisfies never;
}

/** The state after an event, and what is to be done in this order. */
export const step = (state: TuningState, event: TuningEvent): Step => changeBy(state, event)(state);
