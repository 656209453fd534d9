/** Entry of the agent page: consent, the worker, and what it says. */
import { storedNotebook, storedNotes } from "../device/notebook.js";
import { sentence } from "../engine/error.js";
import type { TargetKind } from "../wire/types.js";
import type { AgentEvent } from "./events.js";
import { type KernelzooHost, type PageHost, pageHost } from "./host.js";
import type { FromWorker, ToWorker } from "./messages.js";
import { render } from "./render.js";
import { type AgentState, INITIAL_STATE, reduce } from "./state.js";

declare global {
  /** What a driver or a test reads: every event so far, and the state that they make. */
  var kernelzooAgent: { readonly events: readonly AgentEvent[]; readonly state: AgentState };
  /** What a driver lends to the page before it starts; absent in ordinary visits. */
  var kernelzooHost: KernelzooHost | undefined;
  /** For drivers: starts without a click. */
  var kernelzooStart: () => void;
}

/** Old events are forgotten, so that a page may stay open for days. */
const EVENTS_KEPT = 5_000;
/** Drawing takes processor time beside the measurement. */
const DRAW_EVERY_MS = 150;

/** In the order in which they are measured. */
const TARGETS: readonly TargetKind[] = ["wasm", "webgpu"];

const worker = new Worker("/client/agent-worker.js", { type: "module" });
const notebook = storedNotebook();
let host: PageHost = { turns: undefined, operatorKey: null };
let started = false;
/** A link to `?start=1` is no consent; who drives the browser has given it. */
const automated = navigator.webdriver;
let pausedByHand = false;
/** What the worker was told last. */
let paused = false;
let _drawing: ReturnType<typeof setTimeout> | null = null;

function post(message: ToWorker): void {
  worker.postMessage(message);
}

function publish(events: readonly AgentEvent[], state: AgentState): void {
  globalThis.kernelzooAgent = { events, state };
  _drawing ??= setTimeout(draw, DRAW_EVERY_MS);
}

function draw(): void {
  _drawing = null;
  render(globalThis.kernelzooAgent.state);
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

worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
  switch (data.type) {
    case "event":
      return take(data.event);
    case "note":
      return notebook.write(data.key, data.value);
    case "acquire-turn":
      return void acquireTurn();
    case "release-turn":
      return void host.turns?.releaseTurn();
    default:
      data satisfies never;
  }
};

worker.onerror = (event) =>
  take({
    type: "error",
    message: `The worker stopped: ${event.message || "it could not be loaded"}. Reload the page.`,
    retryInMs: null,
  });

/** Runs unless the page is hidden or the visitor has paused it. */
function pauseOrResume(): void {
  const wanted = pausedByHand || document.hidden;
  if (wanted === paused) return;
  paused = wanted;
  post({ type: paused ? "pause" : "resume" });
}

/** As `?target=webgpu` says; all of them unless it names one. */
function askedTargets(): readonly TargetKind[] {
  const asked = new URLSearchParams(location.search).getAll("target");
  const known = TARGETS.filter((target) => asked.includes(target));
  return known.length > 0 ? known : TARGETS;
}

function start(): void {
  if (started) return;
  started = true;
  host = pageHost();
  const { events, state } = globalThis.kernelzooAgent;
  publish(events, { ...state, phase: "starting" });
  post({
    type: "start",
    options: {
      origin: location.origin,
      targets: askedTargets(),
      openedAt: performance.timeOrigin,
      operatorKey: host.operatorKey,
      hostTurns: host.turns !== undefined,
      notes: storedNotes(),
    },
  });
  pauseOrResume();
  document.addEventListener("visibilitychange", pauseOrResume);
}

function listen(): void {
  document.getElementById("start")?.addEventListener("click", start);
  document.getElementById("pause")?.addEventListener("click", () => {
    pausedByHand = !pausedByHand;
    pauseOrResume();
  });
}

publish([], INITIAL_STATE);
draw();
listen();
globalThis.kernelzooStart = start;
if (automated && new URLSearchParams(location.search).get("start") === "1") start();
