/**
 * Entry of the worker that measures candidates of a model, inlined into the tuner as text. It holds no
 * part of the model: a candidate that hangs or writes anywhere harms nothing but this worker.
 */
import type { LeaseInstrument } from "../agent/instrument.js";
import { cachedLoader } from "../agent/kernel-cache.js";
import { gate } from "../agent/pauses.js";
import { relativeTime } from "../agent/ranking.js";
import { turns } from "../agent/turns.js";
import { wasmInstrument } from "../agent/wasm-instrument.js";
import { sentence } from "../engine/error.js";
import { sleep } from "../gateway/request.js";
import { breathing } from "../runtime/breathing.js";
import { clockStepMs } from "../timing/clock.js";
import type { KernelWire, Lease, MeasurementWire } from "../wire/types.js";
import { best, type Prospect } from "./choosing.js";
import type { FromMeasurer, MeasureOrder, Running, ToMeasurer } from "./messages.js";
import { type Batch, type Candidate, follow } from "./queue.js";
import { Rests } from "./rests.js";

interface WorkerScope {
  postMessage(message: FromMeasurer): void;
  onmessage: ((event: MessageEvent<ToMeasurer>) => void) | null;
}

/** What is known of one workload. Candidates that are left, the best expected first. */
interface Known {
  running: Running;
  left: readonly Candidate[];
  inVain: number;
  callMs: number;
  inferenceMs: number;
  /** Expected of the kernel that runs; 1, as of the default, where that is unknown. */
  expected: number;
}

/** Measured in a row, with the inputs and the running kernel warm. */
const ROW = 6;
/** What is not this much faster than the kernel that runs is noise. */
const FASTER = 0.97;
const HOPELESS = 1.08;
/** Before the first measurement. */
const GUESSED_CALL_MS = 1;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

const scope = globalThis as unknown as WorkerScope;
const post = (message: FromMeasurer): void => scope.postMessage(message);
/** Never aborted: the page ends the worker. */
const { signal } = new AbortController();
/** Closed while an inference runs or something pauses the page. */
const opened = gate();
opened.close();
const rests = new Rests(opened, breathing());
const withTurn = turns(navigator.locks, undefined);

const known = new Map<string, Known>();
const tried = new Set<string>();
let wake: () => void = () => undefined;
let streamEnded: string | null = null;

const seed = (): number => Math.floor(Math.random() * 2 ** 31);

/** As an agent borrows it, but from nobody. */
const leaseOf = ({ workload, kernel, tolerance }: Running): Lease => ({
  ...{ workload, tolerance, reference: kernel, candidates: [], measured: [], seed: seed() },
  ...{ lease: "", nonce: "", expires_in_s: 0, flops: 0, unmeasured: 0, complete: false },
});

function take({ workload, candidates }: Pick<Batch, "workload" | "candidates">): void {
  const own = known.get(workload);
  if (own === undefined) return;
  const fresh = candidates.filter(({ kernel }) => !tried.has(kernel.sha256));
  const current = candidates.find(({ kernel }) => kernel.sha256 === own.running.kernel.sha256);
  own.expected = current?.expected ?? own.expected;
  const rank = ({ expected }: Candidate): number => expected ?? 1;
  own.left = [...own.left, ...fresh]
    .filter(({ kernel }) => kernel.sha256 !== own.running.kernel.sha256)
    .sort((a, b) => rank(a) - rank(b));
  wake();
}

function prospects(): readonly (Prospect & { readonly own: Known })[] {
  return [...known].flatMap(([workload, own]) => {
    const { left, callMs, inferenceMs, inVain } = own;
    if (left[0] === undefined) return [];
    const { expected } = left[0];
    const relative = expected === null ? null : expected / own.expected;
    return [{ workload, own, callMs, inferenceMs, inVain, expected: relative }];
  });
}

/** Verified and timed beside the kernel that runs; a failure is a measurement, too. */
async function measured(bench: LeaseInstrument, kernel: KernelWire): Promise<MeasurementWire> {
  const work = await bench.candidate(kernel);
  if (typeof work !== "function") return work;
  post({ type: "trying", artifact: kernel.sha256 });
  return withTurn(work);
}

const timeOf = ({ outcome, samples_ns, reference_ns }: MeasurementWire): number | null =>
  outcome === "ok" ? relativeTime(samples_ns, reference_ns) : null;

/** Measures `kernels` of a workload in a row; answers the fastest, where it is faster than what runs. */
async function inRow(
  own: Known,
  kernels: readonly KernelWire[],
  made: (kernel: KernelWire, measurement: MeasurementWire) => void,
): Promise<{ readonly kernel: KernelWire; readonly time: number } | null> {
  const bench = await instrument.open(leaseOf(own.running), kernels);
  let first: { readonly kernel: KernelWire; readonly time: number } | null = null;
  try {
    for (const kernel of kernels) {
      await rests.rest();
      const measurement = await measured(bench, kernel);
      made(kernel, measurement);
      const time = timeOf(measurement);
      if (time === null) continue;
      own.callMs = Math.min(...measurement.reference_ns) / 1e6;
      if (time < Math.min(FASTER, first?.time ?? 1)) first = { kernel, time };
    }
    return first;
  } finally {
    bench.dispose();
  }
}

async function measure(own: Known): Promise<void> {
  const row = own.left.slice(0, ROW);
  const { running } = own;
  const { workload } = running;
  const first = await inRow(
    own,
    row.map(({ kernel }) => kernel),
    (kernel, measurement) => {
      const { candidate, outcome } = measurement;
      const artifact = kernel.sha256;
      tried.add(artifact);
      own.left = own.left.filter((each) => each.kernel.sha256 !== artifact);
      own.inVain += 1;
      const time = timeOf(measurement);
      post({ type: "measured", workload, candidate, artifact, outcome, relativeTime: time });
    },
  );
  if (first === null || own.running !== running) return;
  // On other inputs, and since the luckiest of several is not the fastest.
  const again = await inRow(own, [first.kernel], () => undefined);
  if (again === null || own.running !== running) return;
  own.inVain = 0;
  own.running = { ...running, kernel: first.kernel };
  own.expected = row.find(({ kernel }) => kernel === first.kernel)?.expected ?? own.expected;
  const found = { workload, kernel: first.kernel, relativeTime: Math.max(first.time, again.time) };
  post({ type: "found", found });
}

async function nextProspect(): Promise<Known | null> {
  for (;;) {
    await rests.rest();
    const next = best(prospects()) as ReturnType<typeof prospects>[number] | undefined;
    if (next !== undefined) return next.own;
    if (streamEnded !== null) return null;
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
}

/** Answers why it ended. */
async function measureAll(budgetMs: number): Promise<string> {
  let [spentMs, failures] = [0, 0];
  while (spentMs < budgetMs) {
    const next = await nextProspect();
    if (next === null) return streamEnded ?? "";
    const began = rests.clock();
    let retryMs = 0;
    try {
      await measure(next);
      failures = 0;
    } catch (thrown) {
      // The network or the memory, not the kernel.
      post({ type: "waiting", message: sentence(thrown) });
      retryMs = Math.min(FIRST_WAIT_MS * 2 ** failures++, LONGEST_WAIT_MS);
    }
    const ms = rests.clock() - began;
    spentMs += ms;
    post({ type: "spent", ms });
    if (retryMs > 0) await sleep(retryMs, signal);
  }
  return "The budget of this visit is spent.";
}

let instrument: ReturnType<typeof wasmInstrument>;

async function start(order: MeasureOrder): Promise<void> {
  const load = cachedLoader(new URL(order.origin), signal);
  const pacing = { rest: rests.rest, clock: rests.clock, hopeless: HOPELESS };
  instrument = wasmInstrument(load, clockStepMs(), undefined, pacing);
  for (const artifact of order.tried) tried.add(artifact);
  for (const running of order.running) {
    const { workload } = running;
    known.set(workload, {
      ...{ running, left: [], inVain: 0, expected: 1, inferenceMs: 0 },
      callMs: GUESSED_CALL_MS,
    });
  }
  for (const { workload, kernel } of order.kept) {
    take({ workload, candidates: [{ kernel, expected: 0 }] });
  }
  follow(order.candidates, {
    take,
    asks: ({ pathname, search }) =>
      post({ type: "sent", request: { method: "GET", path: pathname + search, body: "" } }),
    waiting: (message) => post({ type: "waiting", message }),
    sleep: (ms) => sleep(ms, signal),
  }).then((reason) => {
    streamEnded = reason;
    wake();
  });
  post({ type: "ended", reason: await measureAll(order.budgetMs) });
}

scope.onmessage = ({ data }) => {
  switch (data.type) {
    case "measure":
      void start(data.order);
      return;
    case "times":
      for (const [workload, ms] of Object.entries(data.ms)) {
        const own = known.get(workload);
        if (own !== undefined) own.inferenceMs = ms;
      }
      return;
    case "running": {
      const own = known.get(data.running.workload);
      if (own !== undefined) own.running = data.running;
      return;
    }
    case "go":
      opened.open();
      return;
    case "rest":
      opened.close();
      return;
    case "ping":
      post({ type: "pong" });
      return;
    default:
      data satisfies never;
  }
};
