/** Entry of the agent page: consent, the worker, and what it says. */
import { forgetNotes, storedNotebook, storedNotes } from "../device/notebook.js";
import { sentence } from "../engine/error.js";
import { type PageHost, pageHost } from "../measurer/turns.js";
import { byId, setText, show } from "../page/elements.js";
import type { MeasuredTarget } from "../wire/types.js";
import { isLimited, type Lending, storedLending, unlimitedLending } from "./budget.js";
import { obstacles, thisBrowser } from "./conditions.js";
import { forget, identityNumber } from "./erasure.js";
import type { AgentEvent, FromWorker, ToWorker } from "./messages.js";
import { mainPause, type Pause, pauses, watchDevice, watchPage } from "./pauses.js";
import { render, showBudget, watchBudgetForm } from "./render.js";
import { NOTHING_SENT, renderSent, type SentLog, withSent } from "./request-log.js";
import { type AgentState, INITIAL_STATE, reduce } from "./state.js";

declare global {
  /**
   * The record that a driver or a test reads: the last `EVENTS_KEPT` events, and the state that all
   * events so far make.
   */
  var kernelzooAgent: { readonly events: readonly AgentEvent[]; readonly state: AgentState };
  /** Starts without a click; drivers call it. */
  var kernelzooStart: () => void;
}

/** Old events are forgotten, so that a page may stay open for days. */
const EVENTS_KEPT = 5_000;
/** Drawing takes processor time beside the measurement. */
const DRAW_EVERY_MS = 150;
/** The budget begins anew at midnight. */
const LOOK_AT_CLOCK_MS = 30_000;
const CONSENT = "consent";

/** The targets, in the order in which they are measured. */
const TARGETS: readonly MeasuredTarget[] = ["wasm", "webgpu"];

const notebook = storedNotebook();
/** A link to `?start=1` is not a consent; the owner of an automated browser has consented. */
const automated = navigator.webdriver;
const agreed = (): boolean => notebook.read(CONSENT) !== null;

let worker: Worker | null = null;
let host: PageHost = { turns: undefined, operatorKey: null };
let lending: Lending = storedLending(notebook);
let sent: SentLog = NOTHING_SENT;
/** The reason to pause that the worker was told last; null where it is not to pause. */
let pausedBy: Pause | null = null;
let _drawing: ReturnType<typeof setTimeout> | null = null;

const reasons = pauses(tellPause);

/** Tells the worker whether to pause, and for which reason, unless it was told that last. */
function tellPause(): void {
  const main = mainPause(reasons.because);
  if (main === pausedBy) return;
  pausedBy = main;
  post(main === null ? { type: "resume" } : { type: "pause", why: main });
}

function post(message: ToWorker): void {
  worker?.postMessage(message);
}

function publish(events: readonly AgentEvent[], state: AgentState): void {
  globalThis.kernelzooAgent = { events, state };
  drawSoon();
}

function drawSoon(): void {
  _drawing ??= setTimeout(draw, DRAW_EVERY_MS);
}

function draw(): void {
  _drawing = null;
  render(globalThis.kernelzooAgent.state);
  renderSent(sent);
  setText("identity", identityNumber(notebook) || "none yet");
  showBudget(lending);
}

function take(event: AgentEvent): void {
  const { events, state } = globalThis.kernelzooAgent;
  publish([...events, event].slice(-EVENTS_KEPT), reduce(state, event));
}

async function acquireTurn(): Promise<void> {
  try {
    await host.turns?.acquireTurn();
    post({ type: "turn", error: null });
  } catch (thrown) {
    post({ type: "turn", error: sentence(thrown) });
  }
}

/** Tells the worker, which stops by itself, and the visitor what is left. */
function lookAtBudget(): void {
  const { allowed } = lending;
  post({ type: "allow", allowed });
  reasons.set("budget", allowed.leftMs <= 0);
  drawSoon();
}

function spend(ms: number): void {
  lending.spend(ms);
  reasons.set("budget", lending.allowed.leftMs <= 0);
  drawSoon();
}

function heard({ data }: MessageEvent<FromWorker>): void {
  switch (data.type) {
    case "event":
      take(data.event);
      return;
    case "sent":
      sent = withSent(sent, data.request, new Date());
      drawSoon();
      return;
    case "spent":
      spend(data.ms);
      return;
    case "note":
      notebook.write(data.key, data.value);
      return;
    case "rank":
      // It runs no model.
      worker?.postMessage({ type: "ranked", times: null } satisfies ToWorker);
      return;
    case "acquire-turn":
      void acquireTurn();
      return;
    case "release-turn":
      void host.turns?.releaseTurn();
      return;
    default:
      data satisfies never;
  }
}

function startWorker(): Worker {
  const started = new Worker("/client/agent-worker.js", { type: "module" });
  started.onmessage = heard;
  started.onerror = (event) =>
    take({
      type: "error",
      message: `The worker stopped: ${event.message || "it could not be loaded"}. Reload the page.`,
      retryInMs: null,
    });
  return started;
}

/**
 * The targets that the address names, as in `?target=webgpu`; all of them where it names none, and a
 * sentence where it names one that is none.
 */
function askedTargets(): readonly MeasuredTarget[] | string {
  const asked = new URLSearchParams(location.search).getAll("target");
  const unknown = asked.find((name) => !TARGETS.some((target) => target === name));
  if (unknown !== undefined) {
    return `The address asks for the target ${unknown}; write ?target=${TARGETS.join(" or ?target=")}.`;
  }
  return asked.length > 0 ? TARGETS.filter((target) => asked.includes(target)) : TARGETS;
}

/** Starts the worker. No request was made and nothing was measured before. */
function start(): void {
  if (worker !== null) return;
  const targets = askedTargets();
  if (typeof targets === "string") {
    take({ type: "refused", reason: targets });
    return;
  }
  worker = startWorker();
  host = pageHost();
  publish([], { ...INITIAL_STATE, phase: "starting" });
  post({
    type: "start",
    options: {
      origin: location.origin,
      targets,
      workloads: null,
      inTokens: [],
      beside: false,
      application: new URLSearchParams(location.search).get("application"),
      openedAt: performance.timeOrigin,
      operatorKey: host.operatorKey,
      hostTurns: host.turns !== undefined,
      approved: agreed() || !isLimited(lending),
      allowed: lending.allowed,
      notes: storedNotes(),
    },
  });
  pausedBy = null;
  reasons.set("budget", lending.allowed.leftMs <= 0);
  reasons.set("hidden", document.hidden);
  tellPause();
}

/** Starts for a driver, whose owner has agreed to everything. */
function startDriven(): void {
  if (!agreed()) lending = unlimitedLending();
  start();
}

function approve(): void {
  notebook.write(CONSENT, new Date().toISOString());
  post({ type: "approve" });
  const { events, state } = globalThis.kernelzooAgent;
  publish(events, { ...state, phase: "starting" });
}

/** Ends the agent, and with it the session, whose token nobody else has. */
function stop(): void {
  if (worker !== null) {
    // Otherwise messages on their way would write notes that were just erased.
    worker.onmessage = null;
    worker.terminate();
  }
  worker = null;
  sent = NOTHING_SENT;
  byId("sent").replaceChildren();
  publish([], INITIAL_STATE);
}

async function forgetMe(): Promise<void> {
  stop();
  const { left, text } = await forget(notebook, new URL(location.origin));
  const notice = left ? "not-forgotten" : "forgotten";
  setText(`${notice}-text`, text);
  show("forgotten", !left);
  show("not-forgotten", left);
  byId(notice).focus();
}

function forgetHere(): void {
  forgetNotes();
  setText("forgotten-text", "What it had sent stays, under an identity that nobody holds.");
  show("not-forgotten", false);
  show("forgotten", true);
  byId("forgotten").focus();
}

function listen(): void {
  byId("start").addEventListener("click", () => {
    show("forgotten", false);
    show("not-forgotten", false);
    start();
  });
  byId("approve").addEventListener("click", approve);
  byId("decline").addEventListener("click", stop);
  for (const id of ["forget", "forget-again"]) {
    byId(id).addEventListener("click", () => void forgetMe());
  }
  byId("forget-here").addEventListener("click", forgetHere);
  byId("pause").addEventListener("click", () => {
    reasons.set("hand", !reasons.because.has("hand"));
  });
  watchPage(reasons);
  // The visitor has erased the notes or changed the budget in another tab.
  addEventListener("storage", () => {
    if (worker !== null && !agreed() && isLimited(lending) && pastConsent()) stop();
    else lookAtBudget();
  });
  watchBudgetForm((budget) => {
    lending.choose(budget);
    lookAtBudget();
  });
  setInterval(lookAtBudget, LOOK_AT_CLOCK_MS);
}

const pastConsent = (): boolean => {
  const { phase } = globalThis.kernelzooAgent.state;
  return phase !== "consent" && phase !== "starting" && phase !== "asking";
};

function tellObstacles(): boolean {
  const standing = obstacles(thisBrowser());
  for (const { id } of standing) show(id, true);
  const blocked = standing.some(({ blocks }) => blocks);
  (byId("start") as HTMLButtonElement).disabled = blocked;
  return blocked;
}

publish([], INITIAL_STATE);
draw();
listen();
const blocked = tellObstacles();
globalThis.kernelzooStart = startDriven;
if (automated && new URLSearchParams(location.search).get("start") === "1") startDriven();
else if (agreed() && !blocked) start();
if (!automated) watchDevice(reasons);
