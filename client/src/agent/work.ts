/** One lease, from its candidates through the reports to the ballot. */
import type { Gateway } from "../gateway/gateway.js";
import type { Answer, FinalAnswer } from "../gateway/request.js";
import type { Instrument, LeaseInstrument } from "../measurer/instrument.js";
import { measureAgain, measureRow } from "../measurer/row.js";
import type { WithTurn } from "../measurer/turns.js";
import { now } from "../timing/clock.js";
import type { Gate } from "../timing/gate.js";
import { relativeTime } from "../timing/samples.js";
import type { Lease, MeasuredTarget, MeasurementWire } from "../wire/types.js";
import type { Emit, Finalist } from "./messages.js";
import {
  ballotLines,
  fastest,
  type Results,
  relativeTimes,
  resultsOf,
  type WorkloadResults,
} from "./ranking.js";
import type { Session } from "./session.js";

/**
 * Returns the times of finalists over that of the zoo's reference, in their order, by what whole
 * tokens of the page's language model take with each; null where the page has no such model, or
 * that does not run the workload.
 */
export type InTokens = (
  workload: string,
  finalists: readonly Finalist[],
) => Promise<readonly number[] | null>;

/** The surroundings that the agent needs to measure one target. */
export interface AgentPorts {
  readonly target: MeasuredTarget;
  /** The only ones that it is to be lent; null for all. */
  readonly workloads: readonly string[] | null;
  readonly inTokens: InTokens;
  readonly gateway: Gateway;
  readonly session: Session;
  readonly instrument: Instrument;
  readonly withTurn: WithTurn;
  readonly gate: Gate;
  readonly emit: Emit;
  /** Asks again while the gateway is unavailable. */
  retried<T>(request: () => Promise<Answer<T>>): Promise<FinalAnswer<T>>;
  /** Waits; rejects when the agent is stopped. */
  sleep(ms: number): Promise<void>;
  /** Milliseconds since the page was opened. */
  sinceOpenMs(): number;
}

export interface ReportPorts {
  send(batch: readonly MeasurementWire[]): Promise<FinalAnswer<unknown>>;
  accepted(measurement: MeasurementWire): void;
  refused(detail: string): void;
}

/** The most measurements that one report may hold. */
const BATCH = 16;
/** The lease is unknown or over; nothing more of it will be taken. */
const LEASE_OVER = new Set([404, 410]);

/**
 * Sends measurements while the next are made: at once when nothing is on its way, else together
 * with what follows. One queue for each lease.
 */
export class ReportQueue {
  readonly #ports: ReportPorts;
  #pending: readonly MeasurementWire[] = [];
  #sending: Promise<void> | null = null;
  #over = false;

  constructor(ports: ReportPorts) {
    this.#ports = ports;
  }

  /** True once the gateway has said that the lease is over. */
  get over(): boolean {
    return this.#over;
  }

  add(measurement: MeasurementWire): void {
    this.#pending = [...this.#pending, measurement];
    this.#sending ??= this.#drain();
    // Whoever awaits `settled` sees the failure.
    this.#sending.catch(() => undefined);
  }

  /** Resolves once everything is answered; rejects when sending was aborted. */
  async settled(): Promise<void> {
    await this.#sending;
  }

  async #drain(): Promise<void> {
    while (this.#pending.length > 0 && !this.#over) {
      const batch = this.#pending.slice(0, BATCH);
      this.#pending = this.#pending.slice(BATCH);
      this.#settle(batch, await this.#ports.send(batch));
    }
    this.#sending = null;
  }

  #settle(batch: readonly MeasurementWire[], answer: FinalAnswer<unknown>): void {
    switch (answer.kind) {
      case "ok":
      case "empty":
        for (const measurement of batch) this.#ports.accepted(measurement);
        return;
      case "refused":
        this.#over = LEASE_OVER.has(answer.status);
        this.#ports.refused(answer.detail);
        return;
      default:
        answer satisfies never;
    }
  }
}

/** A turn covers as many candidates as fit in this time: passing it on costs a few ms. */
const TURN_MS = 250;
/** More than a ballot holds, as three samples may leave one of the best five in sixth place. */
const FINALISTS = 8;

function reportQueue(
  ports: AgentPorts,
  lease: Lease,
  accepted: (measurement: MeasurementWire) => void,
): ReportQueue {
  return new ReportQueue({
    send: (batch) => {
      const report = { nonce: lease.nonce, measurements: [...batch] };
      return ports.session.call((token) =>
        ports.retried(() => ports.gateway.report(token, lease.lease, report)),
      );
    },
    accepted,
    refused: (message) => ports.emit({ type: "error", message, retryInMs: null }),
  });
}

const gflops = (flops: number, samplesNs: readonly number[]): number =>
  flops / Math.min(...samplesNs);

/** Tells the page of a measurement, with the best rate of the workload so far. */
function announce(
  ports: AgentPorts,
  lease: Lease,
  known: WorkloadResults,
  measurement: MeasurementWire,
): void {
  const ok = measurement.outcome === "ok";
  const rate = ok ? gflops(lease.flops, measurement.samples_ns) : null;
  if (rate !== null) known.bestGflops = Math.max(known.bestGflops ?? 0, rate);
  ports.emit({
    type: "measured",
    target: ports.target,
    workload: lease.workload,
    candidate: measurement.candidate,
    outcome: measurement.outcome,
    gflops: rate,
    relativeTime: ok ? relativeTime(measurement.samples_ns, measurement.reference_ns) : null,
    referenceGflops: ok ? gflops(lease.flops, measurement.reference_ns) : null,
    bestGflops: known.bestGflops,
    detail: measurement.detail,
  });
}

/**
 * Measures until `over`, or until another turn as long as the longest would end after the lease,
 * which takes no reports then. Answers how many candidates are left: they are lent again.
 */
function measureAll(
  ports: AgentPorts,
  lease: Lease,
  instrument: LeaseInstrument,
  done: (measurement: MeasurementWire) => void,
  over: () => boolean,
): Promise<number> {
  const { gate, withTurn, target, emit } = ports;
  const { workload, candidates, expires_in_s } = lease;
  const untilMs = now() + 1000 * expires_in_s;
  return measureRow(instrument, candidates, {
    ...{ gate, withTurn, turnMs: TURN_MS },
    begins: ({ candidate }) => emit({ type: "measuring", target, workload, candidate }),
    measured: (_, measurement) => done(measurement),
    isOver: (longestMs) => over() || now() + longestMs > untilMs,
  });
}

function tellLeft(ports: AgentPorts, { candidates }: Lease, left: number): void {
  const count = `${left} of ${candidates.length} candidates`;
  const message = `The lease ended before ${count} were measured; they are lent again.`;
  ports.emit({ type: "error", message, retryInMs: null });
}

async function fileBallot(
  ports: AgentPorts,
  workload: string,
  ranked: readonly Finalist[],
  final: boolean,
  in_tokens = false,
): Promise<void> {
  if (ranked.length === 0) return;
  const ballot = { workload, lines: ballotLines(ranked), paired: final, in_tokens };
  const answer = await ports.session.call((token) =>
    ports.retried(() => ports.gateway.fileBallot(token, ballot)),
  );
  if (answer.kind === "refused") throw new Error(answer.detail);
  const lines = ranked.map(({ kernel, relativeTime: time }) => ({
    candidate: kernel.candidate,
    relativeTime: time,
  }));
  ports.emit({ type: "ballot", target: ports.target, workload, lines, final });
}

/** The fastest of `ranked` once they are measured against each other. */
async function rankedAgain(
  ports: AgentPorts,
  lease: Lease,
  ranked: readonly Finalist[],
): Promise<readonly Finalist[]> {
  if (ranked.length === 0) return [];
  const kernels = ranked.map(({ kernel }) => kernel);
  const instrument = await ports.instrument.open(lease, kernels);
  try {
    const times = await measureAgain(instrument, kernels, ports);
    return kernels.map((kernel, i) => ({ kernel, relativeTime: times[i] as number }));
  } finally {
    instrument.dispose();
  }
}

/** The final ballot: by whole tokens where the page can time those, else by the kernels alone. */
async function fileFinal(
  ports: AgentPorts,
  lease: Lease,
  ranked: readonly Finalist[],
): Promise<void> {
  const { workload } = lease;
  const alone = await rankedAgain(ports, lease, ranked);
  if (alone.length === 0) return;
  await ports.gate.pass();
  const best = fastest(alone);
  const times = await ports.withTurn(() => ports.inTokens(workload, best));
  const inTokens = best.map((finalist, i) => ({
    ...finalist,
    relativeTime: times?.[i] ?? finalist.relativeTime,
  }));
  const lines = times === null ? alone : inTokens;
  await fileBallot(ports, workload, fastest(lines, FINALISTS), true, times !== null);
}

/** Milliseconds from page open to the first timed candidate: told once for each target. */
function tellFirst(ports: AgentPorts, results: Results): void {
  const first = [...results.values()].every(({ bestGflops }) => bestGflops === null);
  if (first) ports.emit({ type: "firstTimed", firstTimedMs: ports.sinceOpenMs() });
}

/** Adds what the gateway accepted; a ballot may name nothing else. */
function rank(known: WorkloadResults, lease: Lease, accepted: readonly MeasurementWire[]): void {
  const times = relativeTimes(accepted);
  for (const kernel of lease.candidates) {
    const time = times.get(kernel.candidate);
    if (time !== undefined) known.ranked.set(kernel.candidate, { kernel, relativeTime: time });
  }
}

/** Answers how many candidates are left. */
async function measureLease(ports: AgentPorts, lease: Lease, results: Results): Promise<number> {
  const known = resultsOf(results, lease);
  const accepted: MeasurementWire[] = [];
  const reports = reportQueue(ports, lease, (measurement) => accepted.push(measurement));
  const instrument = await ports.instrument.open(lease, lease.candidates);
  const done = (measurement: MeasurementWire): void => {
    if (measurement.outcome === "ok") tellFirst(ports, results);
    announce(ports, lease, known, measurement);
    reports.add(measurement);
  };
  try {
    const left = await measureAll(ports, lease, instrument, done, () => reports.over);
    if (left > 0) tellLeft(ports, lease, left);
    return left;
  } finally {
    instrument.dispose();
    await reports.settled();
    rank(known, lease, accepted);
  }
}

/**
 * Measures what the lease lends, reports each measurement, and files a ballot. The last lease comes
 * once the class has measured the whole space and this agent the fastest of it; then the agent
 * compares its own fastest once more and files its final ballot. Rejects when the network or the
 * memory fails.
 */
export async function workLease(ports: AgentPorts, lease: Lease, results: Results): Promise<void> {
  const { workload, unmeasured, complete } = lease;
  const { target } = ports;
  const candidates = lease.candidates.length;
  ports.emit({ type: "lease", target, workload, candidates, unmeasured });
  const left = candidates > 0 ? await measureLease(ports, lease, results) : 0;
  const { ranked } = resultsOf(results, lease);
  await fileBallot(ports, workload, fastest(ranked.values()), false);
  if (left > 0 || unmeasured > 0 || !complete) return;
  const named = (lease.finalists ?? []).flatMap((id) => ranked.get(id) ?? []);
  const compared = new Set([...named, ...fastest(ranked.values(), FINALISTS)]);
  await fileFinal(ports, lease, [...compared].slice(0, FINALISTS));
}
