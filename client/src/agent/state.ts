import type { MeasuredTarget, Outcome } from "../wire/types.js";
import type { AgentEvent } from "./messages.js";
import type { Pause } from "./pauses.js";

/** One measured candidate, in the order of measuring. */
export interface Bar {
  readonly candidate: string;
  readonly outcome: Outcome;
  readonly gflops: number | null;
  readonly detail: string;
}

export interface WorkloadState {
  readonly target: MeasuredTarget;
  readonly workload: string;
  readonly bars: readonly Bar[];
  readonly bestGflops: number | null;
  /** The best of the reference kernel's rates. */
  readonly referenceGflops: number | null;
  /** Candidates still to come, to this agent or to others; null before the first lease. */
  readonly remaining: number | null;
  readonly ballot: Extract<AgentEvent, { type: "ballot" }> | null;
}

export type SessionEvent = Extract<AgentEvent, { type: "session" }>;

/** The state that the agent page shows and drivers read at `kernelzooAgent.state`. */
export interface AgentState {
  readonly phase:
    | "consent"
    | "starting"
    /** The profile is shown and not sent. */
    | "asking"
    | "waiting"
    | "measuring"
    | "paused"
    | "refused";
  /** The JSON that the first request is going to hold. */
  readonly profile: string | null;
  readonly pausedBy: Pause | null;
  /** The first one; agents that measure two targets have two. */
  readonly session: SessionEvent | null;
  readonly sessions: readonly SessionEvent[];
  /** The targets that are not measured, each with the reason. */
  readonly unavailable: readonly Extract<AgentEvent, { type: "unavailable" }>[];
  readonly firstTimedMs: number | null;
  readonly current: { readonly workload: string; readonly candidate: string } | null;
  /** One for each target and key, in the order of the first lease. */
  readonly workloads: readonly WorkloadState[];
  readonly error: Extract<AgentEvent, { type: "error" }> | null;
}

export const INITIAL_STATE: AgentState = {
  phase: "consent",
  profile: null,
  pausedBy: null,
  session: null,
  sessions: [],
  unavailable: [],
  firstTimedMs: null,
  current: null,
  workloads: [],
  error: null,
};

/** The workload that an event is about, and its target. */
type WorkloadOnTarget = Pick<WorkloadState, "target" | "workload">;

const emptyWorkload = ({ target, workload }: WorkloadOnTarget): WorkloadState => ({
  target,
  workload,
  bars: [],
  bestGflops: null,
  referenceGflops: null,
  remaining: null,
  ballot: null,
});

/** `state` with one workload changed, which is added where it is new. */
function withWorkload(
  state: AgentState,
  subject: WorkloadOnTarget,
  change: (workload: WorkloadState) => WorkloadState,
): AgentState {
  const isSubject = ({ target, workload }: WorkloadOnTarget): boolean =>
    target === subject.target && workload === subject.workload;
  const known = state.workloads.some(isSubject);
  const workloads = known ? state.workloads : [...state.workloads, emptyWorkload(subject)];
  return {
    ...state,
    workloads: workloads.map((workload) => (isSubject(workload) ? change(workload) : workload)),
  };
}

/** `state` with a session of its target in place of an earlier one. */
function withSession(state: AgentState, session: SessionEvent): AgentState {
  const others = state.sessions.filter(({ target }) => target !== session.target);
  const first = state.session?.target;
  return {
    ...state,
    session: first === undefined || first === session.target ? session : state.session,
    sessions: [...others, session],
    error: null,
  };
}

const greater = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.max(a, b);

function measured(
  state: WorkloadState,
  event: Extract<AgentEvent, { type: "measured" }>,
): WorkloadState {
  const { candidate, outcome, gflops, detail } = event;
  return {
    ...state,
    bars: [...state.bars, { candidate, outcome, gflops, detail }],
    bestGflops: event.bestGflops ?? state.bestGflops,
    referenceGflops: greater(state.referenceGflops, event.referenceGflops),
    remaining: Math.max((state.remaining ?? 1) - 1, 0),
  };
}

/** Changes the phase, except while paused: events of the work before may still arrive then. */
function inPhase(state: AgentState, phase: AgentState["phase"]): AgentState {
  return state.phase === "paused" ? state : { ...state, phase };
}

/** The state after `event`. */
export function reduce(state: AgentState, event: AgentEvent): AgentState {
  switch (event.type) {
    case "session":
      return inPhase(withSession(state, event), "waiting");
    case "profile":
      return { ...state, phase: "asking", profile: event.body, error: null };
    case "refused":
      return {
        ...state,
        phase: "refused",
        error: { type: "error", message: event.reason, retryInMs: null },
      };
    case "unavailable":
      return { ...state, unavailable: [...state.unavailable, event] };
    case "lease":
      return withWorkload({ ...state, error: null }, event, (workload) => ({
        ...workload,
        remaining: event.candidates + event.unmeasured,
      }));
    case "measuring": {
      const { workload, candidate } = event;
      return inPhase({ ...state, current: { workload, candidate } }, "measuring");
    }
    case "measured":
      return withWorkload(state, event, (workload) => measured(workload, event));
    case "ballot":
      return withWorkload(state, event, (workload) => ({ ...workload, ballot: event }));
    case "firstTimed":
      return { ...state, firstTimedMs: state.firstTimedMs ?? event.firstTimedMs };
    case "idle":
      return inPhase({ ...state, current: null, error: null }, "waiting");
    case "paused":
      return { ...state, phase: "paused", pausedBy: event.why };
    case "resumed":
      return { ...state, phase: "waiting", pausedBy: null };
    case "stuck":
      return { ...state, error: { type: "error", message: event.reason, retryInMs: null } };
    case "error":
      return { ...state, error: event };
    default:
      return event satisfies never;
  }
}
