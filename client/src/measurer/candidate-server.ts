/**
 * The worker that measures candidates of a model. It holds no part of the model: a candidate that hangs
 * or writes anywhere harms nothing but this worker.
 */
import { relativeTime } from "../agent/ranking.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { breathing } from "../executor/event-loop.js";
import { sleep } from "../gateway/request.js";
import { poster, serveMessages } from "../rpc.js";
import { Rests, type SliceGate } from "../timing/rests.js";
import { type Batch, type Candidate, follow } from "../tuning/candidate-stream.js";
import type { FromMeasurer, MeasureOrder, Running, ToMeasurer } from "../tuning/messages.js";
import { best, type Prospect } from "../tuning/prospects.js";
import type { KernelWire } from "../wire/types.js";
import { type LullGate, Lulls } from "./idle-gate.js";
import type { Instrument, LeaseInstrument } from "./instrument.js";
import { LentTurn } from "./lent-turn.js";
import type { Pacing } from "./measurement.js";
import { measureAgain, measureRow } from "./row.js";
import { measureFrom } from "./source.js";
import { subjectOf } from "./subject.js";
import { turns } from "./turns.js";

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

/**
 * The state of measuring one workload. `left` are its candidates that are not measured yet, the
 * best expected first.
 */
interface Known {
  running: Running;
  left: readonly Candidate[];
  /** The kernel that ran before `running`, and others that were faster than that. */
  runnersUp: readonly Candidate[];
  inVain: number;
  /** Candidates to a row. */
  row: number;
  callMs: number;
  inferenceMs: number;
  /** Expected of the kernel that runs; 1, as of the default, where that is unknown. */
  expected: number;
}

/**
 * The number of candidates that are measured in a row, with the inputs and the running kernel warm.
 * By the times of all candidates of ResNet-50, rows of 6 are within 5 % of its best after 13 s of
 * measuring, rows of 12 after 18 s: most kernels that win are among the first of their space, and
 * another workload has such, too.
 */
const ROW = 6;
/** So many of a row, the fastest by the beginnings of their calls, are proven in turn. */
const PROVEN = 3;
/**
 * A candidate wins with at most this share of the running kernel's time: a smaller gain is noise.
 */
const FASTER = 0.97;
const HOPELESS = 1.08;
const THREAD_SLICES: Slices = { ms: 2.5, oneOf: 1 };
/** The milliseconds of a call that are assumed before the first measurement. */
const GUESSED_CALL_MS = 1;

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

const known = new Map<string, Known>();
const tried = new Set<string>();
/** False while this page's agent tries what nobody has tried. */
let explores = true;
let wake: () => void = () => undefined;
let streamEnded: string | null = null;

function take({ workload, candidates }: Pick<Batch, "workload" | "candidates">): void {
  const own = known.get(workload);
  if (own === undefined) return;
  const current = candidates.find(({ kernel }) => kernel.sha256 === own.running.kernel.sha256);
  own.expected = current?.expected ?? own.expected;
  // A candidate that is known may be expected to take another time now.
  const all = new Map([...own.left, ...candidates].map((one) => [one.kernel.sha256, one]));
  all.delete(own.running.kernel.sha256);
  own.left = sorted([...all.values()].filter(({ kernel }) => !tried.has(kernel.sha256)));
  wake();
}

/** Sorts candidates, the best expected first. */
function sorted(candidates: readonly Candidate[]): readonly Candidate[] {
  const rank = ({ expected }: Candidate): number => expected ?? 1;
  return [...candidates].sort((a, b) => rank(a) - rank(b));
}

/** Candidates that may be tried now. */
const open = ({ left, expected: of }: Known): readonly Candidate[] =>
  explores ? left : left.filter(({ expected }) => expected !== null && expected < FASTER * of);

function expect(workload: string, candidate: string, expected: number): void {
  const own = known.get(workload);
  if (own === undefined) return;
  own.left = sorted(
    own.left.map((one) => (one.kernel.candidate === candidate ? { ...one, expected } : one)),
  );
  wake();
}

function prospects(): readonly (Prospect & { readonly own: Known })[] {
  return [...known].flatMap(([workload, own]) => {
    const { callMs, inferenceMs, inVain } = own;
    const [first] = open(own);
    if (first === undefined) return [];
    const { expected } = first;
    const relative = expected === null ? null : expected / own.expected;
    return [{ workload, own, callMs, inferenceMs, inVain, expected: relative }];
  });
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
async function measure(own: Known): Promise<void> {
  const row = open(own).slice(0, own.row);
  try {
    await tryRow(own, row);
    own.row = ROW;
  } catch (thrown) {
    const stage = thrown instanceof KernelZooError ? thrown.stage : "run";
    if (stage !== "network" && stage !== "profile") failed(own, row);
    throw thrown;
  }
}

function failed(own: Known, row: readonly Candidate[]): void {
  const [first] = row;
  if (own.row > 1) own.inVain += row.length;
  else if (first !== undefined && !tried.has(first.kernel.sha256)) measured(own, first, null);
  own.row = 1;
}

/** A candidate that is faster than the kernel that runs, by a first look. */
interface Faster extends Candidate {
  readonly time: number;
}

/** Measures candidates in a row, and tells which is to run. */
async function tryRow(own: Known, row: readonly Candidate[]): Promise<void> {
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
        measured(own, candidate, time);
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
  own: Known,
  { kernel, expected }: Candidate,
  relativeTime: number,
  faster: readonly Candidate[],
  opened: LeaseInstrument,
): Promise<void> {
  const { running } = own;
  const { workload } = running;
  const before = { kernel: running.kernel, expected: own.expected };
  own.inVain = 0;
  own.running = { ...running, kernel };
  own.runnersUp = [before, ...faster.filter((candidate) => candidate.kernel !== kernel)];
  own.expected = expected ?? own.expected;
  const runnersUp = own.runnersUp.map((candidate) => candidate.kernel.sha256);
  const modules = await opened.modules?.(kernel);
  const found = { workload, kernel, relativeTime, ...(modules && { modules }) };
  post({ type: "found", found, runnersUp });
}

function measured(own: Known, candidate: Candidate, relativeTime: number | null): void {
  const artifact = candidate.kernel.sha256;
  tried.add(artifact);
  own.left = own.left.filter(({ kernel }) => kernel.sha256 !== artifact);
  own.inVain += 1;
  post({ type: "measured", artifact, relativeTime });
}

/**
 * Another kernel runs than `artifact`, which is not tried again, even where it is offered only now:
 * those that were nearly as fast may win.
 */
function lost(running: Running, artifact: string): void {
  const own = known.get(running.workload);
  if (own === undefined) return;
  const others = ({ kernel }: Candidate): boolean =>
    ![artifact, running.kernel.sha256].includes(kernel.sha256);
  const isOvertaken = own.running.kernel.sha256 !== artifact;
  tried.add(artifact);
  own.runnersUp = own.runnersUp.filter(others);
  own.left = own.left.filter(others);
  // A kernel that was found meanwhile is on its way to the page, and runs next.
  if (isOvertaken) return;
  own.running = running;
  for (const { kernel } of own.runnersUp) tried.delete(kernel.sha256);
  own.left = [...own.runnersUp, ...own.left];
  own.runnersUp = [];
  wake();
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

type Ended = Omit<Extract<FromMeasurer, { readonly type: "ended" }>, "type">;

async function measureAll(budgetMs: number): Promise<Ended> {
  let spentMs = 0;
  let ended: Ended = { reason: "The budget of this visit is spent.", complete: false };
  await measureFrom<Known>({
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
  for (const artifact of order.tried) tried.add(artifact);
  for (const running of order.running) {
    const { workload } = running;
    known.set(workload, {
      ...{ running, left: [], runnersUp: [], inVain: 0, row: ROW, expected: 1, inferenceMs: 0 },
      callMs: GUESSED_CALL_MS,
    });
  }
  for (const { workload, kernel } of order.kept) {
    take({ workload, candidates: [{ kernel, expected: 0 }] });
  }
  follow(order.candidates, {
    take,
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
    times({ ms }) {
      for (const [workload, own] of known) own.inferenceMs = ms[workload] ?? own.inferenceMs;
    },
    running: ({ running, lost: artifact }) => lost(running, artifact),
    explore(asked) {
      explores = asked.explore;
      wake();
    },
    expected: ({ workload, candidate, expected }) => expect(workload, candidate, expected),
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
