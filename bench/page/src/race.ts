/** Whole spaces, measured as an agent measures them, on a machine that reaches no gateway. */

import { MEASURERS, type Measurer } from "../../../client/src/agent/targets.js";
import { memoryNotebook } from "../../../client/src/device/notebook.js";
import { readProfile } from "../../../client/src/device/profile.js";
import { sentence } from "../../../client/src/engine/error.js";
import { Failures } from "../../../client/src/gateway/failures.js";
import { clockStepMs } from "../../../client/src/timing/clock.js";
import { relativeTime } from "../../../client/src/timing/samples.js";
import type { KernelWire, Lease, SessionRequest } from "../../../client/src/wire/types.js";

type Times = Record<string, number>;

/**
 * The answer that `fixtures/recorded/answer.py` takes in: what a session would be opened with, and
 * relative times.
 */
interface RaceAnswer {
  readonly session: SessionRequest;
  readonly times: Times;
}

/** Candidates that need what this browser lacks are left out, as a gateway lends none of them. */
async function measure({ instrument, request }: Measurer, lease: Lease): Promise<Times> {
  const times: Times = {};
  const runs = ({ requires }: KernelWire) =>
    requires.every((each) => request.features.includes(each));
  const kernels = lease.candidates.filter(runs);
  const opened = await instrument.open(lease, kernels);
  for (const kernel of kernels) {
    const made = await opened.candidate(kernel);
    const { outcome, samples_ns, reference_ns, detail } =
      typeof made === "function" ? await made() : made;
    if (outcome === "ok") times[kernel.candidate] = relativeTime(samples_ns, reference_ns);
    else console.log(`${lease.workload} ${kernel.candidate}: ${outcome}: ${detail}`);
  }
  opened.dispose();
  return times;
}

/** The device is probed anew at each call. */
async function run(): Promise<RaceAnswer> {
  const leases = (await (await fetch("leases.json")).json()) as Lease[];
  const notebook = memoryNotebook();
  const profile = await readProfile(notebook);
  const measurer = await MEASURERS.wasm({
    origin: new URL("./", location.href),
    signal: new AbortController().signal,
    notebook,
    withTurn: async (work) => work(),
    pacing: undefined,
    // A reference that does not compile ends the race, so that nobody has to be told.
    failures: new Failures(() => undefined),
    profile,
    stepMs: clockStepMs(),
    isolated: crossOriginIsolated,
  });
  const { hardware, engine } = profile;
  const session = { hardware, engine, isolated: crossOriginIsolated, ...measurer.request };
  const times: Times = {};
  for (const lease of leases) Object.assign(times, await measure(measurer, lease));
  return { session, times };
}

/** For browsers that nobody drives: the answer, or why there is none, goes where the page is from. */
async function post(): Promise<void> {
  const answer = await run().catch((thrown: unknown) => ({ failure: sentence(thrown) }));
  await fetch("answer", { method: "POST", body: JSON.stringify(answer) });
}

if (new URLSearchParams(location.search).has("post")) void post();

Object.assign(globalThis, { kernelzooRace: { run } });
