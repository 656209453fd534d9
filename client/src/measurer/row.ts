/**
 * Measures candidates of one workload in a row, with the reference and the inputs warm: those of a
 * lease, or the next of a model's stream.
 */

import { now } from "../timing/clock.js";
import type { Gate } from "../timing/gate.js";
import type { KernelWire, MeasurementWire } from "../wire/types.js";
import type { LeaseInstrument, TimedWork } from "./instrument.js";
import type { WithTurn } from "./turns.js";

/** The surroundings of a row: who else measures here, and who is told. */
export interface RowPorts {
  /** Passed before each turn; a turn ends where it closes meanwhile. */
  readonly gate: Pick<Gate, "isOpen" | "pass">;
  readonly withTurn: WithTurn;
  /** A turn covers one candidate, and as many more as begin within so long. */
  readonly turnMs: number;
  readonly begins: (kernel: KernelWire) => void;
  /** Told of each candidate once, those that do not compile among them. */
  readonly measured: (kernel: KernelWire, measurement: MeasurementWire) => void;
  /** Says whether no turn is to begin, as it may take as long as the longest before. */
  readonly isOver: (longestMs: number) => boolean;
}

interface PreparedCandidate {
  readonly kernel: KernelWire;
  readonly work: TimedWork<MeasurementWire>;
}

/**
 * Fetches and compiles before a turn is taken. Each failure is told at once. Rejects when one could
 * not be prepared for a reason that is not the kernel's.
 */
async function prepare(
  instrument: LeaseInstrument,
  kernels: readonly KernelWire[],
  { measured }: RowPorts,
): Promise<PreparedCandidate[]> {
  const preparing = kernels.map(async (kernel): Promise<PreparedCandidate[]> => {
    const work = await instrument.candidate(kernel);
    if (typeof work === "function") return [{ kernel, work }];
    measured(kernel, work);
    return [];
  });
  await Promise.allSettled(preparing);
  return (await Promise.all(preparing)).flat();
}

/** Measures from the front of `queue` until the turn is over or the gate is closed. */
async function inOneTurn(queue: PreparedCandidate[], ports: RowPorts): Promise<void> {
  const untilMs = now() + ports.turnMs;
  do {
    const next = ports.gate.isOpen ? queue.shift() : undefined;
    if (next === undefined) return;
    ports.begins(next.kernel);
    ports.measured(next.kernel, await next.work());
  } while (now() < untilMs);
}

/** Measures until all are measured or it is over. Answers how many are left. */
export async function measureRow(
  instrument: LeaseInstrument,
  kernels: readonly KernelWire[],
  ports: RowPorts,
): Promise<number> {
  const queue = await prepare(instrument, kernels, ports);
  for (let longestMs = 0; queue.length > 0 && !ports.isOver(longestMs); ) {
    await ports.gate.pass();
    const begunMs = now();
    await ports.withTurn(() => inOneTurn(queue, ports));
    longestMs = Math.max(longestMs, now() - begunMs);
  }
  return queue.length;
}

/** Relative times of `kernels`, in order, measured against each other in a turn of their own. */
export async function measureAgain(
  instrument: LeaseInstrument,
  kernels: readonly KernelWire[],
  { gate, withTurn }: Pick<RowPorts, "gate" | "withTurn">,
): Promise<readonly number[]> {
  const work = await instrument.again(kernels);
  await gate.pass();
  return withTurn(work);
}
