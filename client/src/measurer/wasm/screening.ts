/**
 * Screens candidates on WebAssembly. Many are told apart by the beginning of a call; of those that
 * are faster the whole output is compared, and whole calls are timed.
 */
import { relativeTime } from "../../agent/ranking.js";
import type { Linked } from "../../backend/wasm/program.js";
import type { Arena } from "../../engine/arena.js";
import type { KernelInstance } from "../../engine/instance.js";
import { loadPacks } from "../../engine/packing.js";
import { partsOf } from "../../executor/kernel-parts.js";
import { callsPerSample, restingSampler, type Sampler } from "../../timing/samples.js";
import type { Running } from "../../tuning/messages.js";
import type { ArtifactWire, KernelWire } from "../../wire/types.js";
import type { Screening } from "../candidate-server.js";
import type { LoadKernel } from "../kernel-cache.js";
import { deadlineMs, failureOf, type Pacing, screen } from "../measurement.js";
import { type Subject, subjectOf } from "../subject.js";
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

export class WasmScreening implements Screening {
  readonly #subject: Subject;
  readonly #bench: Bench;
  readonly #load: LoadKernel;
  readonly #reference: Reference;
  readonly #stepMs: number;
  readonly #pacing: Pacing;

  private constructor(
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

  /** Fetches all kernels at once. Throws KernelZooError: network, artifact, memory, run. */
  static async open(
    arena: Arena,
    running: Running,
    kernels: readonly KernelWire[],
    load: LoadKernel,
    stepMs: number,
    pacing: Pacing,
  ): Promise<WasmScreening> {
    const subject = subjectOf(running);
    // Whoever needs a kernel sees its failure.
    for (const kernel of kernels) load(kernel).catch(() => undefined);
    const all = [running.kernel, ...kernels];
    const [module, packs] = await Promise.all([load(running.kernel), loadPacks(all, load)]);
    const rest = restOf(pacing);
    await rest();
    const bench = new Bench(arena, subject, all, packs);
    try {
      await bench.fill(rest);
      await bench.layOut(running.kernel, rest);
      const reference = await setReference(bench, running.kernel, module, stepMs, pacing);
      return new WasmScreening(subject, bench, load, reference, stepMs, pacing);
    } catch (thrown) {
      bench.dispose();
      throw thrown;
    }
  }

  get callMs(): number {
    return this.#reference.callMs;
  }

  /** Times the beginning of a call, whatever it computes. */
  begun(kernel: KernelWire): Promise<number | null> {
    return this.#attempt(kernel, async (module) => {
      const { clock, hopeless } = this.#pacing;
      const { instance, callMs } = this.#reference;
      const share = Math.min(1, PART_MS / callMs);
      const untilMs = deadlineMs(callMs, clock);
      const [own, beside] = [
        await this.#warm(partOf(this.#bench.bind(kernel, module), share), untilMs),
        { ...partOf(instance, share), callMs: share * callMs },
      ];
      if (own.callMs > hopeless * beside.callMs) return own.callMs / beside.callMs;
      const calls = callsPerSample(Math.min(own.callMs, beside.callMs), this.#stepMs);
      const samples = await screen(
        this.#sampler(own, calls),
        this.#sampler(beside, calls),
        untilMs,
        clock,
        LOST,
      );
      return relativeTime(samples.own, samples.reference);
    });
  }

  proven(kernel: KernelWire): Promise<number | null> {
    return this.#attempt(kernel, async (module) => {
      const { samples_ns, reference_ns } = await measure(
        this.#bench,
        this.#subject,
        this.#reference,
        kernel,
        module,
        this.#stepMs,
        this.#pacing,
      );
      return relativeTime(samples_ns, reference_ns);
    });
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

  /** Null for a kernel that fails. */
  async #attempt(
    kernel: KernelWire,
    work: (module: WebAssembly.Module) => Promise<number>,
  ): Promise<number | null> {
    try {
      const module = await this.#load(kernel);
      await this.#bench.layOut(kernel, restOf(this.#pacing));
      return await work(module);
    } catch (thrown) {
      failureOf(kernel, thrown);
      // It may have written anywhere.
      this.#bench.reset();
      return null;
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
