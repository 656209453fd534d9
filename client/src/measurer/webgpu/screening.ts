/**
 * Candidates on a GPU, by the agent's instrument: it compares the whole output and times whole calls at
 * once, as both take less there than compiling. A candidate that loses the device costs itself alone.
 */
import { relativeTime } from "../../agent/ranking.js";
import type { Running } from "../../tuning/messages.js";
import type { KernelWire, MeasurementWire } from "../../wire/types.js";
import type { Screening } from "../candidate-server.js";
import type { Instrument, LeaseInstrument, TimedWork } from "../instrument.js";
import { subjectOf } from "../subject.js";

type Work = MeasurementWire | TimedWork<MeasurementWire>;

/** Until a candidate is measured. */
const UNKNOWN_CALL_MS = 1;

export class GpuScreening implements Screening {
  callMs = UNKNOWN_CALL_MS;
  readonly #lease: LeaseInstrument;
  readonly #works: ReadonlyMap<string, Work>;

  private constructor(lease: LeaseInstrument, works: ReadonlyMap<string, Work>) {
    this.#lease = lease;
    this.#works = works;
  }

  /** Compiles all before anything is timed. Throws KernelZooError: network, run, profile. */
  static async open(
    instrument: Instrument,
    running: Running,
    kernels: readonly KernelWire[],
  ): Promise<GpuScreening> {
    const lease = await instrument.open(subjectOf(running), kernels);
    try {
      const works = kernels.map(
        async (kernel) => [kernel.sha256, await lease.candidate(kernel)] as const,
      );
      return new GpuScreening(lease, new Map(await Promise.all(works)));
    } catch (thrown) {
      lease.dispose();
      throw thrown;
    }
  }

  async begun({ sha256 }: KernelWire): Promise<number | null> {
    const work = this.#works.get(sha256) as Work;
    const measurement = typeof work === "function" ? await work() : work;
    const { outcome, samples_ns, reference_ns } = measurement;
    if (outcome !== "ok") return null;
    this.callMs = Math.min(...reference_ns) / 1e6;
    return relativeTime(samples_ns, reference_ns);
  }

  /** Again, in more rounds: the best sample of several is biased. */
  async proven(kernel: KernelWire): Promise<number | null> {
    const again = await this.#lease.again([kernel]);
    const [time = null] = await again();
    return time;
  }

  dispose(): void {
    this.#lease.dispose();
  }
}
