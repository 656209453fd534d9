/**
 * The worker that measures candidates of a model. It holds no part of the model: a candidate that hangs
 * or writes anywhere harms nothing but this worker.
 */

import { KernelZooError, sentence } from "../engine/error.js";
import { breathing } from "../executor/event-loop.js";
import { sleep } from "../gateway/request.js";
import type { Instrument, LeaseInstrument } from "../measurer/instrument.js";
import type { Pacing, Subject } from "../measurer/measurement.js";
import { measureAgain, measureRow } from "../measurer/row.js";
import { measureFrom } from "../measurer/source.js";
import { turns } from "../measurer/turns.js";
import { poster, serveMessages } from "../rpc.js";
import { Rests, type SliceGate } from "../timing/rests.js";
import { relativeTime } from "../timing/samples.js";
import type { KernelWire } from "../wire/types.js";
import { type Candidate, follow } from "./candidate-stream.js";
import { type Contest, Contests, FASTER } from "./contest.js";
import { type LullGate, Lulls } from "./idle-gate.js";
import { LentTurn } from "./lent-turn.js";
import type { FromMeasurer, MeasureOrder, Running, ToMeasurer } from "./messages.js";

/** Sets up measuring for a zoo, in slices between which there is a rest. */
export type SetUpInstrument = (
  origin: URL,
  signal: AbortSignal,
  pacing: Pacing,
  lulls: Lulls,
) => Instrument;

/**
 * The milliseconds that slices take at first. Where no lull is as long, a slice begins in one of
 * `oneOf` lulls.
 */
export interface Slices {
  readonly ms: number;
  readonly oneOf: number;
}

/** Below 2^31; no kernel can know the inputs that it will be compared on. */
const newSeed = (): number => (crypto.getRandomValues(new Uint32Array(1))[0] as number) >>> 1;

/** The kernel that runs is the reference. */
const subjectOf = ({ workload, kernel, tolerance }: Running): Subject => ({
  ...{ workload, tolerance, reference: kernel, seed: newSeed() },
});

/** So many of a row, the fastest by the beginnings of their calls, are proven in turn. */
const PROVEN = 3;
const HOPELESS = 1.08;
const THREAD_SLICES: Slices = { ms: 2.5, oneOf: 1 };
const post = poster<FromMeasurer>();
/** Never aborted: the page ends the worker. */
const { signal } = new AbortController();
/** There is no lull while an inference runs or something pauses the page. */
const lulls = new Lulls();
let lull: LullGate;
const lentTurn = new LentTurn(turns(navigator.locks, undefined));
const gate: SliceGate = {
  get isOpen() {
    return lull.isOpen && !lentTurn.isMissing;
  },
  pass: () => (lull.isOpen ? lentTurn.take() : lull.pass()),
  begin: () => lull.begin(),
  end: () => lull.end(),
};
const rests = new Rests(gate, breathing());
const pacing: Pacing = { rest: rests.rest, clock: rests.clock, hopeless: HOPELESS };
let instrument: Instrument;

let contests: Contests;
let wake: () => void = () => undefined;
let streamEnded: string | null = null;

/** Changes what there is to measure, for which this worker may wait. */
function changing(change: () => void): void {
  change();
  wake();
}

/** Says which candidate may hold this worker from now on. */
function begins({ sha256 }: KernelWire): void {
  post({ type: "trying", artifact: sha256 });
}

/** Each candidate has a turn of its own, between two of which inferences go first. */
const ownTurns = {
  gate: { isOpen: true, pass: rests.rest },
  withTurn: <T>(work: () => T | Promise<T>): Promise<T> => lentTurn.within(work),
  turnMs: 0,
  isOver: () => false,
  begins,
};

/**
 * Measures the next candidates of a workload. A row that cannot be measured, as a file is missing or
 * memory, is measured again one by one, so that only those are given up that are at fault.
 */
async function measure(own: Contest): Promise<void> {
  const row = contests.row(own);
  try {
    await tryRow(own, row);
    contests.endsRow(own);
  } catch (thrown) {
    const stage = thrown instanceof KernelZooError ? thrown.stage : "run";
    if (stage !== "network" && stage !== "profile") {
      const atFault = contests.fails(own, row);
      if (atFault !== null) tellMeasured(atFault, null);
    }
    throw thrown;
  }
}

function tellMeasured({ kernel: { sha256 } }: Candidate, relativeTime: number | null): void {
  post({ type: "measured", artifact: sha256, relativeTime });
}

/** A candidate that is faster than the kernel that runs, by a first look. */
interface Faster extends Candidate {
  readonly time: number;
}

/** Measures candidates in a row, and tells which is to run. */
async function tryRow(own: Contest, row: readonly Candidate[]): Promise<void> {
  const { running } = own;
  const kernels = row.map(({ kernel }) => kernel);
  const opened = await instrument.open(subjectOf(running), kernels);
  const faster: Faster[] = [];
  try {
    await measureRow(opened, kernels, {
      ...ownTurns,
      measured(kernel, { outcome, samples_ns, reference_ns }) {
        const time = outcome === "ok" ? relativeTime(samples_ns, reference_ns) : null;
        if (time !== null) own.callMs = Math.min(...reference_ns) / 1e6;
        const candidate = row.find((tried) => tried.kernel === kernel) as Candidate;
        contests.measured(own, candidate);
        tellMeasured(candidate, time);
        if (time !== null && time < FASTER) faster.push({ ...candidate, time });
      },
    });
    faster.sort((a, b) => a.time - b.time);
    for (const candidate of faster.slice(0, PROVEN)) {
      if (own.running !== running) return;
      // The best sample of several is biased, and a kernel may be fast as it leaves entries out: so
      // whole calls are timed and the whole output is compared.
      begins(candidate.kernel);
      const times = await measureAgain(opened, [candidate.kernel], ownTurns);
      const relativeTime = times[0] as number;
      if (relativeTime > FASTER || own.running !== running) continue;
      return await wins(own, candidate, relativeTime, faster, opened);
    }
  } finally {
    opened.dispose();
  }
}

async function wins(
  own: Contest,
  candidate: Candidate,
  relativeTime: number,
  faster: readonly Candidate[],
  opened: LeaseInstrument,
): Promise<void> {
  const { kernel } = candidate;
  const { workload } = own.running;
  contests.wins(own, candidate, faster);
  const runnersUp = own.runnersUp.map((runnerUp) => runnerUp.kernel.sha256);
  const modules = await opened.modules?.(kernel);
  const winner = { workload, kernel, relativeTime, ...(modules && { modules }) };
  post({ type: "found", winner, runnersUp });
}

async function nextProspect(): Promise<Contest | null> {
  for (;;) {
    await rests.rest();
    const { next } = contests;
    if (next !== null) return next;
    if (streamEnded !== null) return null;
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
}

type Ended = Omit<Extract<FromMeasurer, { readonly type: "ended" }>, "type">;

async function measureAll(budgetMs: number): Promise<Ended> {
  let spentMs = 0;
  let ended: Ended = { reason: "The budget of this visit is spent.", complete: false };
  await measureFrom<Contest>({
    async next() {
      if (spentMs >= budgetMs) return null;
      const next = await nextProspect();
      if (next === null) ended = { reason: streamEnded ?? "", complete: true };
      return next;
    },
    async measure(own) {
      const began = rests.clock();
      try {
        await measure(own);
      } finally {
        const ms = rests.clock() - began;
        spentMs += ms;
        post({ type: "spent", ms });
      }
    },
    async failed(_, thrown, retryInMs) {
      const reason = sentence(thrown);
      if (thrown instanceof KernelZooError && thrown.stage === "profile") {
        // The GPU cannot be had any more.
        ended = { reason, complete: false };
        return false;
      }
      // Memory may be free later, and the network be there.
      post({ type: "waiting", message: reason });
      await sleep(retryInMs, signal);
      return true;
    },
  });
  return ended;
}

async function start(order: MeasureOrder, setUp: SetUpInstrument): Promise<void> {
  instrument = setUp(new URL(order.origin), signal, pacing, lulls);
  contests = new Contests(order.running, order.tried);
  for (const { workload, kernel } of order.kept) {
    contests.take({ workload, candidates: [{ kernel, expected: 0 }] });
  }
  follow(order.candidates, {
    take: (batch) => changing(() => contests.take(batch)),
    again: order.contributes,
    asks: ({ pathname, search }) =>
      post({ type: "sent", request: { method: "GET", path: pathname + search, body: "" } }),
    waiting: (message) => post({ type: "waiting", message }),
    sleep: (ms) => sleep(ms, signal),
  }).then((reason) => {
    streamEnded = reason;
    wake();
  });
  post({ type: "ended", ...(await measureAll(order.budgetMs)) });
}

/** Answers messages from now on. */
export function measuring(setUp: SetUpInstrument, { ms, oneOf } = THREAD_SLICES): void {
  lull = lulls.gate(ms, oneOf);
  serveMessages<ToMeasurer>({
    measure: ({ order }) => start(order, setUp),
    times: ({ ms }) => contests.times(ms),
    running: ({ running, lost }) => changing(() => contests.lost(running, lost)),
    explore({ explore }) {
      changing(() => {
        contests.explores = explore;
      });
    },
    expected: ({ workload, candidate, expected }) =>
      changing(() => contests.expect(workload, candidate, expected)),
    go() {
      lulls.begin();
      lentTurn.resume();
    },
    rest() {
      lulls.end();
      lentTurn.pause();
    },
    ping: () => post({ type: "pong" }),
  });
}
