/** Entry of the agent's worker: composes the agent and runs it. */
import { memoryNotebook, type Notebook } from "../device/notebook.js";
import { type DeviceProfile, peakOf, readLevels, readProfile } from "../device/profile.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { backoffMs, sleep } from "../gateway/backoff.js";
import { type Gateway, httpGateway } from "../gateway/gateway.js";
import { type RetryPorts, retried } from "../gateway/retry.js";
import { quarterOctave } from "../probe/levels.js";
import type { ProbeLevels, SessionRequest, SessionResponse } from "../wire/types.js";
import type { Emit } from "./events.js";
import { gate } from "./gate.js";
import { remoteTurns } from "./host-turns.js";
import { wasmInstrument } from "./instrument.js";
import { runAgent } from "./loop.js";
import type { FromWorker, StartOptions, ToWorker } from "./messages.js";
import { cachedLoader } from "./module-cache.js";
import { session } from "./session.js";
import { turns, type WithTurn } from "./turn.js";

/** The worker's global scope, which TypeScript's DOM library does not describe. */
interface WorkerScope {
  postMessage(message: FromWorker): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  readonly crossOriginIsolated: boolean;
}

const scope = globalThis as unknown as WorkerScope;
const post = (message: FromWorker): void => scope.postMessage(message);
const emit: Emit = (event) => post({ type: "event", event });
/** Never aborted: the page ends the agent by ending the worker. */
const { signal } = new AbortController();
const opened = gate();
const host = remoteTurns(post);

/** Notes of the page, kept there: what is written here is posted back. */
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

/** What leaves the page: levels, and no rate as it was measured. */
function sessionRequest(
  profile: DeviceProfile,
  levels: ProbeLevels | null,
  identity: string | null,
): SessionRequest {
  return {
    hardware: profile.hardware,
    engine: profile.engine,
    target: "wasm",
    features: [...profile.wasmFeatures],
    rho: profile.rho,
    peak_gflops: quarterOctave(peakOf(profile.peaks)),
    probe: levels,
    isolated: scope.crossOriginIsolated,
    identity,
  };
}

async function openSession(
  gateway: Gateway,
  profile: DeviceProfile,
  levels: ProbeLevels | null,
  notebook: Notebook,
  retries: RetryPorts,
): Promise<SessionResponse> {
  const request = sessionRequest(profile, levels, notebook.read("identity"));
  const answer = await retried(() => gateway.openSession(request), retries);
  if (answer.kind !== "ok") {
    const detail = answer.kind === "refused" ? answer.detail : "It gave no session.";
    throw new KernelZooError("network", `The gateway refuses this device: ${detail}`);
  }
  notebook.write("identity", answer.value.identity);
  return answer.value;
}

function turnsOf(options: StartOptions): WithTurn {
  return turns(navigator.locks, options.hostTurns ? host.turns : undefined);
}

async function start(options: StartOptions): Promise<void> {
  const notebook = pageNotebook(options.notes);
  const origin = new URL(options.origin);
  const gateway = httpGateway(origin, options.operatorKey, signal);
  const instrument = wasmInstrument(cachedLoader(origin, signal));
  const withTurn = turnsOf(options);
  const wait = (ms: number): Promise<void> => sleep(ms, signal);
  const retries: RetryPorts = {
    sleep: wait,
    waiting: (message, retryInMs) => emit({ type: "error", message, retryInMs }),
  };
  const profile = await readProfile(notebook, withTurn);
  // Without isolation the clock is too coarse for them.
  const levels = scope.crossOriginIsolated ? await readLevels(notebook, profile, withTurn) : null;
  const open = async (): Promise<SessionResponse> => {
    const answer = await openSession(gateway, profile, levels, notebook, retries);
    emit({
      type: "session",
      deviceId: answer.device_id,
      deviceClass: answer.device_class,
      peakGflops: peakOf(profile.peaks),
      isolated: scope.crossOriginIsolated,
      clockStepMs: instrument.clockStepMs,
    });
    return answer;
  };
  await runAgent(
    {
      gateway,
      session: session(open),
      instrument,
      withTurn,
      gate: opened,
      emit,
      retried: (request) => retried(request, retries),
      sleep: wait,
      sinceOpenMs: () => performance.timeOrigin + performance.now() - options.openedAt,
    },
    signal,
  );
}

/** Starts again until the device could be described; then the agent takes care of itself. */
async function startUntilRunning(options: StartOptions): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await start(options);
    } catch (thrown) {
      const retryInMs = backoffMs(attempt);
      emit({ type: "error", message: sentence(thrown), retryInMs });
      await sleep(retryInMs, signal);
    }
  }
}

scope.onmessage = ({ data }) => {
  switch (data.type) {
    case "start":
      void startUntilRunning(data.options);
      return;
    case "pause":
      opened.close();
      emit({ type: "paused" });
      return;
    case "resume":
      opened.open();
      emit({ type: "resumed" });
      return;
    case "turn":
      host.answered(data.error);
      return;
    default:
      data satisfies never;
  }
};
