/**
 * Screens candidates of a model's stream on WebAssembly. Many are told apart by the beginning of a
 * call; of those that are faster the whole output is compared, and whole calls are timed, when they
 * are measured again.
 */

import type { Linked } from "../../backend/wasm/program.js";
import type { Arena } from "../../engine/arena.js";
import type { KernelInstance } from "../../engine/instance.js";
import { loadPacks } from "../../engine/packing.js";
import { partsOf } from "../../executor/kernel-parts.js";
import {
  callsPerSample,
  relativeTime,
  restingSampler,
  type Sampler,
} from "../../timing/samples.js";
import type { ArtifactWire, KernelWire, MeasurementWire } from "../../wire/types.js";
import type { Instrument, LeaseInstrument, TimedWork } from "../instrument.js";
import type { LoadKernel } from "../kernel-cache.js";
import type { Subject } from "../measurement.js";
import { deadlineMs, failureOf, measurementOf, type Pacing, screen } from "../measurement.js";
import { Bench } from "./bench.js";
import { measure, type Reference, setReference, warm } from "./instrument.js";

/** The milliseconds at the beginning of a call by which candidates are told apart. */
const PART_MS = 6;
/** A candidate that is this many times slower in two rounds is not timed in a third. */
const LOST = 1.03;

/** The first units of a call, as if they were all. */
interface CallPart {
  readonly extent: number;
  readonly run: KernelInstance["run"];
}

function partOf({ extent, run }: KernelInstance, share: number): CallPart {
  return { extent: Math.max(1, Math.round(share * extent)), run };
}

const restOf = ({ rest }: Pacing) => rest ?? (async () => {});

class WasmScreening implements LeaseInstrument {
  readonly #subject: Subject;
  readonly #bench: Bench;
  readonly #load: LoadKernel;
  readonly #reference: Reference;
  readonly #stepMs: number;
  readonly #pacing: Pacing;

  constructor(
    subject: Subject,
    bench: Bench,
    load: LoadKernel,
    reference: Reference,
    stepMs: number,
    pacing: Pacing,
  ) {
    this.#subject = subject;
    this.#bench = bench;
    this.#load = load;
    this.#reference = reference;
    this.#stepMs = stepMs;
    this.#pacing = pacing;
  }

  /** Times the beginning of a call, whatever it computes, and tells of whole calls by it. */
  async candidate(kernel: KernelWire): Promise<TimedWork<MeasurementWire>> {
    return () =>
      this.#attempt(kernel, async (module) => {
        const { clock, hopeless } = this.#pacing;
        const { instance, callMs } = this.#reference;
        const share = Math.min(1, PART_MS / callMs);
        const untilMs = deadlineMs(callMs, clock);
        const [own, beside] = [
          await this.#warm(partOf(this.#bench.bind(kernel, module), share), untilMs),
          { ...partOf(instance, share), callMs: share * callMs },
        ];
        const calls = callsPerSample(Math.min(own.callMs, beside.callMs), this.#stepMs);
        const isHopeless = own.callMs > hopeless * beside.callMs;
        const samples = isHopeless
          ? { own: [1e6 * own.callMs], reference: [1e6 * beside.callMs] }
          : await screen(
              this.#sampler(own, calls),
              this.#sampler(beside, calls),
              untilMs,
              clock,
              LOST,
            );
        const whole = (ns: readonly number[]): readonly number[] => ns.map((part) => part / share);
        const { own: ownNs, reference } = samples;
        const ofCalls = { own: whole(ownNs), reference: whole(reference) };
        return measurementOf(kernel, [], ofCalls, calls, null);
      });
  }

  /** Compares whole outputs, too; a kernel that fails takes an infinite time. */
  async again(kernels: readonly KernelWire[]): Promise<TimedWork<readonly number[]>> {
    return async () => {
      const times: number[] = [];
      for (const kernel of kernels) {
        const { outcome, samples_ns, reference_ns } = await this.#attempt(kernel, (module) =>
          measure(
            this.#bench,
            this.#subject,
            this.#reference,
            kernel,
            module,
            this.#stepMs,
            this.#pacing,
          ),
        );
        const isRight = outcome === "ok";
        times.push(isRight ? relativeTime(samples_ns, reference_ns) : Number.POSITIVE_INFINITY);
      }
      return times;
    };
  }

  modules(kernel: KernelWire): Promise<readonly Linked[]> {
    const linked = async (part: ArtifactWire): Promise<Linked> => {
      return { module: await this.#load(part), functions: { [part.sha256]: "main" } };
    };
    return Promise.all(partsOf(kernel).map(linked));
  }

  dispose(): void {
    this.#bench.dispose();
  }

  async #attempt(
    kernel: KernelWire,
    work: (module: WebAssembly.Module) => Promise<MeasurementWire>,
  ): Promise<MeasurementWire> {
    try {
      const module = await this.#load(kernel);
      await this.#bench.layOut(kernel, restOf(this.#pacing));
      return await work(module);
    } catch (thrown) {
      const failure = failureOf(kernel, thrown);
      // It may have written anywhere.
      this.#bench.reset();
      return failure;
    }
  }

  async #warm(part: CallPart, untilMs: number): Promise<CallPart & { readonly callMs: number }> {
    const { callMs } = await warm(part, this.#stepMs, untilMs, this.#pacing);
    return { ...part, callMs };
  }

  #sampler(part: CallPart & { readonly callMs: number }, calls: number): Sampler {
    const sampled = { calls, callMs: part.callMs };
    return restingSampler(part, sampled, restOf(this.#pacing), this.#pacing.clock);
  }
}

/** Opening fetches all kernels at once. Throws KernelZooError: network, artifact, memory, run. */
export const wasmScreening = (
  arena: Arena,
  load: LoadKernel,
  stepMs: number,
  pacing: Pacing,
): Instrument => ({
  async open(subject, kernels) {
    // Whoever needs a kernel sees its failure.
    for (const kernel of kernels) load(kernel).catch(() => undefined);
    const { reference: running } = subject;
    const all = [running, ...kernels];
    const [module, packs] = await Promise.all([load(running), loadPacks(all, load)]);
    const rest = restOf(pacing);
    await rest();
    const bench = new Bench(arena, subject, all, packs);
    try {
      await bench.fill(rest);
      await bench.layOut(running, rest);
      const reference = await setReference(bench, running, module, stepMs, pacing);
      return new WasmScreening(subject, bench, load, reference, stepMs, pacing);
    } catch (thrown) {
      bench.dispose();
      throw thrown;
    }
  },
});
