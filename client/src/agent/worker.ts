/** Entry of the agent's worker: composes the agent and runs it. */
import { memoryNotebook, type Notebook } from "../device/notebook.js";
import { readProfile } from "../device/profile.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { breathing } from "../executor/event-loop.js";
import { Failures } from "../gateway/failures.js";
import { type Gateway, httpGateway } from "../gateway/gateway.js";
import { type Answer, backoffMs, type RetryPorts, retried, sleep } from "../gateway/request.js";
import { remoteTurns, turns, type WithTurn } from "../measurer/turns.js";
import { poster, serveMessages, workerScope } from "../rpc.js";
import { clockStepMs } from "../timing/clock.js";
import { gate } from "../timing/gate.js";
import { Rests } from "../timing/rests.js";
import type { MeasuredTarget, SessionRequest, SessionResponse } from "../wire/types.js";
import { Allowance } from "./budget.js";
import { runAgent } from "./loop.js";
import type { Emit, FromWorker, StartOptions, ToWorker } from "./messages.js";
import { type Session, session, solved } from "./session.js";
import { type Environment, MEASURERS, type Measurer } from "./targets.js";
import type { AgentPorts, InTokens } from "./work.js";

const PROOF_OF_WORK = "proof-of-work";

const post = poster<FromWorker>();
const emit: Emit = (event) => post({ type: "event", event });
/** Never aborted: the page ends the agent by ending the worker. */
const { signal } = new AbortController();
/** Open while the page has not paused the agent and there is budget left. */
const opened = gate();
const host = remoteTurns(post);
const retries: RetryPorts = {
  sleep: (ms) => sleep(ms, signal),
  waiting: (message, retryInMs) => emit({ type: "error", message, retryInMs }),
};
/** Closed while something runs that goes first. */
const way = gate();
const rests = new Rests(way, breathing());
const allowance = new Allowance(
  { leftMs: 0, share: 1 },
  { sleep: retries.sleep, spent, clock: rests.clock },
);
/** Closed until the visitor lets the profile be sent. */
const approval = gate();
approval.close();
let paused = false;

function openOrClose(): void {
  if (!paused && allowance.isLeft) opened.open();
  else opened.close();
}

function spent(ms: number): void {
  post({ type: "spent", ms });
  openOrClose();
}

/** Shows the visitor what the first request holds, and waits. */
async function approved(request: SessionRequest): Promise<void> {
  if (!approval.isOpen) emit({ type: "profile", body: JSON.stringify(request) });
  await approval.pass();
}

/** The notes that the page keeps: what the worker writes is posted to the page. */
function pageNotebook(notes: StartOptions["notes"]): Notebook {
  const kept = memoryNotebook(notes);
  return {
    read: kept.read,
    write(key, value) {
      kept.write(key, value);
      post({ type: "note", key, value });
    },
  };
}

/**
 * The environment that the targets of one agent share, with what their sessions and leases need.
 */
interface AgentWorld extends Environment {
  readonly openedAt: number;
  readonly application: string | null;
  readonly workloads: readonly string[] | null;
  readonly inTokens: InTokens;
  readonly gateway: Gateway;
  readonly retries: RetryPorts;
}

let heardRanked: (times: readonly number[] | null) => void = () => undefined;

/**
 * Asks the page for one ranking at a time. The page ends this worker together with the model that
 * would answer.
 */
const ranked: InTokens = (workload, finalists) =>
  new Promise((resolve) => {
    heardRanked = resolve;
    post({ type: "rank", workload, finalists });
  });

const isUnauthorized = (answer: Answer<unknown>): boolean =>
  answer.kind === "refused" && answer.status === 401;

async function openSession(
  { gateway, notebook, retries, profile, isolated, application }: AgentWorld,
  measurer: Measurer,
): Promise<SessionResponse> {
  const { hardware, engine } = profile;
  const device = { hardware, engine, isolated };
  const as = (identity: string | null): SessionRequest => ({
    ...device,
    ...measurer.request,
    ...(application === null ? {} : { application }),
    identity,
  });
  const openAs = (identity: string | null): Promise<Answer<SessionResponse>> =>
    retried(() => gateway.openSession(as(identity)), retries);
  const known = notebook.read("identity");
  await approved(as(known));
  let answer = await openAs(known);
  // The gateway's secret was changed, so that it refuses identities from before: ask for a new one.
  if (known !== null && isUnauthorized(answer)) answer = await openAs(null);
  if (answer.kind !== "ok") {
    const detail = answer.kind === "refused" ? answer.detail : "It gave no session.";
    throw new KernelZooError("network", `The gateway refuses this device: ${detail}`);
  }
  notebook.write("identity", answer.value.identity);
  return answer.value;
}

/**
 * Answers the gateway's demand for a proof of work. Where the proof is refused, leases go on as
 * before.
 */
async function attest(world: AgentWorld, opened: SessionResponse): Promise<void> {
  const asked = opened.attestation.find(({ kind }) => kind === PROOF_OF_WORK);
  if (asked === undefined) return;
  const pause = (): Promise<void> => sleep(0, signal);
  const response = await world.withTurn(() => solved(asked.challenge, pause));
  const attestation = { kind: PROOF_OF_WORK, response };
  await retried(() => world.gateway.attest(opened.token, attestation), world.retries);
}

function sessionOf(world: AgentWorld, measurer: Measurer): Session {
  return session(async () => {
    const answer = await openSession(world, measurer);
    await attest(world, answer);
    emit({
      type: "session",
      target: measurer.request.target,
      deviceId: answer.device_id,
      deviceClass: answer.device_class,
      engine: world.profile.engine,
      peakGflops: measurer.peakGflops,
      isolated: world.isolated,
      clockStepMs: world.stepMs,
    });
    return answer;
  });
}

/** The reasons why targets are not measured here. */
const unavailable: string[] = [];

/** Sets a target up; answers null, and tells the page why, where this browser cannot run it. */
async function setUp(world: AgentWorld, target: MeasuredTarget): Promise<AgentPorts | null> {
  try {
    const measurer = await MEASURERS[target](world);
    const { gateway, withTurn, retries, openedAt, workloads, inTokens } = world;
    return {
      target,
      workloads,
      inTokens,
      gateway,
      session: sessionOf(world, measurer),
      instrument: measurer.instrument,
      withTurn,
      gate: opened,
      emit,
      retried: (request) => retried(request, retries),
      sleep: retries.sleep,
      sinceOpenMs: () => performance.timeOrigin + performance.now() - openedAt,
    };
  } catch (thrown) {
    if (!(thrown instanceof KernelZooError)) throw thrown;
    emit({ type: "unavailable", target, reason: thrown.message });
    unavailable.push(thrown.message);
    return null;
  }
}

function turnsOf(options: StartOptions): WithTurn {
  return allowance.counted(turns(navigator.locks, options.hostTurns ? host.turns : undefined));
}

async function start(options: StartOptions): Promise<void> {
  await opened.pass();
  const notebook = pageNotebook(options.notes);
  const origin = new URL(options.origin);
  const withTurn = turnsOf(options);
  const gateway = httpGateway(origin, options.operatorKey, signal, (method, path, body) =>
    post({ type: "sent", request: { method, path, body } }),
  );
  const world: AgentWorld = {
    origin,
    signal,
    notebook,
    withTurn,
    pacing: options.beside
      ? { rest: rests.rest, clock: rests.clock, hopeless: Number.POSITIVE_INFINITY }
      : undefined,
    retries,
    profile: await readProfile(notebook, withTurn),
    stepMs: clockStepMs(),
    isolated: workerScope.crossOriginIsolated,
    openedAt: options.openedAt,
    application: options.application,
    workloads: options.workloads,
    inTokens: async (workload, finalists) =>
      options.inTokens.includes(workload) ? ranked(workload, finalists) : null,
    gateway,
    failures: new Failures((report) => void retried(() => gateway.reportFailure(report), retries)),
  };
  const targets = options.targets.map((target) => () => setUp(world, target));
  await runAgent(targets, signal);
  emit({ type: "refused", reason: unavailable.join(" ") });
}

/** Tries again until the device could be described; from then on `runAgent` handles errors. */
async function startUntilRunning(options: StartOptions): Promise<void> {
  allowance.allow(options.allowed);
  openOrClose();
  if (options.approved) approval.open();
  for (let attempt = 0; ; attempt++) {
    unavailable.length = 0;
    try {
      return await start(options);
    } catch (thrown) {
      const retryInMs = backoffMs(attempt);
      emit({ type: "error", message: sentence(thrown), retryInMs });
      await sleep(retryInMs, signal);
    }
  }
}

serveMessages<ToWorker>({
  start: ({ options }) => startUntilRunning(options),
  approve: () => approval.open(),
  allow({ allowed }) {
    allowance.allow(allowed);
    openOrClose();
  },
  pause({ why }) {
    paused = true;
    openOrClose();
    emit({ type: "paused", why });
  },
  resume() {
    paused = false;
    openOrClose();
    emit({ type: "resumed" });
  },
  "give-way"({ busy }) {
    if (busy) way.close();
    else way.open();
  },
  ranked: ({ times }) => heardRanked(times),
  turn: ({ error }) => host.answered(error),
});
