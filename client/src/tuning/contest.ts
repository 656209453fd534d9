/**
 * Keeps which candidates of a model are still to be measured against the kernels that run, and chooses
 * the next of them.
 */
import type { Candidate, CandidateBatch } from "./candidate-stream.js";
import type { Running } from "./messages.js";

/** Candidates of one workload against the kernel that runs. */
export interface Contest {
  running: Running;
  /** Candidates that are not measured yet, the best expected first. */
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
/**
 * A candidate wins with at most this share of the running kernel's time: a smaller gain is noise.
 */
export const FASTER = 0.97;
/** The milliseconds of a call that are assumed before the first measurement. */
const GUESSED_CALL_MS = 1;

/**
 * A workload that may be measured next: the one in which most time of an inference is won for the time
 * that measuring takes.
 */
export interface Prospect {
  readonly workload: string;
  /** The milliseconds of an inference that all its calls take together. */
  readonly inferenceMs: number;
  readonly callMs: number;
  /** Best expected time of a candidate that is left, over that of the kernel that runs; null: unknown. */
  readonly expected: number | null;
  /** Candidates that were measured since the last that was better. */
  readonly inVain: number;
}

/**
 * The share of the time that a candidate is expected to save of which nothing is known, neither by
 * measurements nor by the zoo's cost model; it falls with each candidate that was no faster.
 */
const HOPED = 0.1;
const LESS = 0.85;
/**
 * The least share that a candidate is expected to save, as what others measured, or a model
 * foretells, may not hold here.
 */
const LEAST = 0.01;
/** The time to set a candidate up, and the number of calls of it and of the kernel that runs. */
const SET_UP_MS = 40;
const CALLS = 10;

/** Share of the workload's time that one more candidate is expected to save. */
const gain = ({ expected, inVain }: Prospect): number =>
  Math.max(expected === null ? HOPED : 1 - expected, LEAST) * LESS ** inVain;

const worth = (prospect: Prospect): number =>
  (prospect.inferenceMs * gain(prospect)) / (SET_UP_MS + CALLS * prospect.callMs);

/** The workload to measure next; undefined where there is none. */
export const bestProspect = (prospects: readonly Prospect[]): Prospect | undefined =>
  prospects.reduce<Prospect | undefined>(
    (first, next) => (first === undefined || worth(next) > worth(first) ? next : first),
    undefined,
  );

/** Sorts candidates, the best expected first. */
function sorted(candidates: readonly Candidate[]): readonly Candidate[] {
  const rank = ({ expected }: Candidate): number => expected ?? 1;
  return [...candidates].sort((a, b) => rank(a) - rank(b));
}

/** Owns the contests of a model. */
export class Contests {
  /** False while this page's agent tries what nobody has tried. */
  explores = true;
  readonly #all: ReadonlyMap<string, Contest>;
  readonly #tried: Set<string>;

  constructor(running: readonly Running[], tried: readonly string[]) {
    this.#all = new Map(
      running.map((kernel) => [
        kernel.workload,
        {
          ...{ running: kernel, left: [], runnersUp: [], inVain: 0, row: ROW, expected: 1 },
          ...{ inferenceMs: 0, callMs: GUESSED_CALL_MS },
        },
      ]),
    );
    this.#tried = new Set(tried);
  }

  /** Milliseconds of an inference by workload. */
  times(ms: Readonly<Record<string, number>>): void {
    for (const [workload, own] of this.#all) own.inferenceMs = ms[workload] ?? own.inferenceMs;
  }

  /** Takes candidates in, but for those that were tried. */
  take({ workload, candidates }: Pick<CandidateBatch, "workload" | "candidates">): void {
    const own = this.#all.get(workload);
    if (own === undefined) return;
    const { sha256 } = own.running.kernel;
    const current = candidates.find(({ kernel }) => kernel.sha256 === sha256);
    own.expected = current?.expected ?? own.expected;
    // A candidate that is known may be expected to take another time now.
    const all = new Map([...own.left, ...candidates].map((one) => [one.kernel.sha256, one]));
    all.delete(sha256);
    own.left = sorted([...all.values()].filter(({ kernel }) => !this.#tried.has(kernel.sha256)));
  }

  /** This page has measured a candidate for others. */
  expect(workload: string, candidate: string, expected: number): void {
    const own = this.#all.get(workload);
    if (own === undefined) return;
    own.left = sorted(
      own.left.map((one) => (one.kernel.candidate === candidate ? { ...one, expected } : one)),
    );
  }

  /** The contest in which most is to be won; null where nothing is left that may be tried now. */
  get next(): Contest | null {
    const prospects = [...this.#all].flatMap(([workload, own]) => {
      const { callMs, inferenceMs, inVain } = own;
      const [first] = this.#open(own);
      if (first === undefined) return [];
      const { expected } = first;
      const relative = expected === null ? null : expected / own.expected;
      return [{ workload, callMs, inferenceMs, inVain, expected: relative } satisfies Prospect];
    });
    return this.#all.get(bestProspect(prospects)?.workload ?? "") ?? null;
  }

  /** The next candidates of a contest. */
  row(own: Contest): readonly Candidate[] {
    return this.#open(own).slice(0, own.row);
  }

  measured(own: Contest, { kernel: { sha256 } }: Candidate): void {
    this.#tried.add(sha256);
    own.left = own.left.filter(({ kernel }) => kernel.sha256 !== sha256);
    own.inVain += 1;
  }

  /** All of a row could be measured. */
  endsRow(own: Contest): void {
    own.row = ROW;
  }

  /**
   * A row could not be measured: its candidates are measured one by one. Answers the one of a row of
   * its own, which is at fault and not tried again; else null.
   */
  fails(own: Contest, row: readonly Candidate[]): Candidate | null {
    const [first] = row;
    const isAlone = own.row === 1;
    own.row = 1;
    if (!isAlone) own.inVain += row.length;
    if (!isAlone || first === undefined || this.#tried.has(first.kernel.sha256)) return null;
    this.measured(own, first);
    return first;
  }

  /** A candidate is to run; `faster` are all that were faster than the kernel before. */
  wins(own: Contest, { kernel, expected }: Candidate, faster: readonly Candidate[]): void {
    const before = { kernel: own.running.kernel, expected: own.expected };
    own.inVain = 0;
    own.running = { ...own.running, kernel };
    own.runnersUp = [before, ...faster.filter((candidate) => candidate.kernel !== kernel)];
    own.expected = expected ?? own.expected;
  }

  /**
   * Another kernel runs than `artifact`, which is not tried again, even where it is offered only now:
   * those that were nearly as fast may win.
   */
  lost(running: Running, artifact: string): void {
    const own = this.#all.get(running.workload);
    if (own === undefined) return;
    const others = ({ kernel }: Candidate): boolean =>
      ![artifact, running.kernel.sha256].includes(kernel.sha256);
    const isOvertaken = own.running.kernel.sha256 !== artifact;
    this.#tried.add(artifact);
    own.runnersUp = own.runnersUp.filter(others);
    own.left = own.left.filter(others);
    // A kernel that was found meanwhile is on its way to the page, and runs next.
    if (isOvertaken) return;
    own.running = running;
    for (const { kernel } of own.runnersUp) this.#tried.delete(kernel.sha256);
    own.left = [...own.runnersUp, ...own.left];
    own.runnersUp = [];
  }

  /** Candidates that may be tried now. */
  #open({ left, expected: of }: Contest): readonly Candidate[] {
    if (this.explores) return left;
    return left.filter(({ expected }) => expected !== null && expected < FASTER * of);
  }
}
