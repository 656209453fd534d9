/** The microbenchmark suite of GPUs. */
import { BoundProgram } from "../backend/webgpu/binding.js";
import { storageBuffer } from "../backend/webgpu/buffers.js";
import type { OpenDevice } from "../backend/webgpu/device.js";
import { compileProgram, type Program } from "../backend/webgpu/program.js";
import { type GpuTimer, gpuTimer } from "../backend/webgpu/timer.js";
import { now } from "../timing/clock.js";
import { faster } from "./duel.js";
import { GPU_PRIMITIVES, GPU_SETTINGS } from "./gpu-modules.js";
import { type Entrant, type RaceLimits, race } from "./race.js";

type SettingName = keyof typeof GPU_SETTINGS;

/**
 * Bits of ρ in the order of the primitives. Rates are of the whole GPU; 0 is unknown. A probe that
 * did not settle is worth repeating at the next visit.
 */
export interface SuiteResult {
  readonly bits: string;
  readonly peakGflops: number;
  readonly bandwidthGbps: number;
  readonly dispatchUs: number;
  readonly settled: boolean;
}
/** A driver that needs longer for one of these is of no use for kernels either. */
const LIMIT_MS = 10_000;
/**
 * These settings are timed as whole calls; a sample of the others may be any number of workgroups.
 */
const WHOLE: ReadonlySet<SettingName> = new Set(["whole", "split", "nothing"]);
/** A duel that takes longer is decided by its rounds so far, and is not settled. */
const DUEL_MS = 500;
/** Steps of the timer in a sample, so that its shortest is wrong by 5 %. */
const STEPS = 40;

/** The rates of settings, in the order of `names`. */
type Rates = ReadonlyMap<SettingName, number>;

const named = (names: readonly SettingName[], rates: readonly number[]): Rates =>
  new Map(names.map((name, i) => [name, rates[i] ?? 0]));

/** Returns whether the device has what a setting requires. */
const offered = ({ features }: OpenDevice, name: SettingName): boolean =>
  GPU_SETTINGS[name].requires.every((feature) => features.includes(feature));

async function compiled(open: OpenDevice, name: SettingName): Promise<Program> {
  const { code, dispatches, scratchBytes } = GPU_SETTINGS[name];
  const tensor = { dtype: "f32", shape: [], limit: 0 } as const;
  const kernel = {
    candidate: name,
    requires: GPU_SETTINGS[name].requires,
    dispatches,
    scratch_bytes: scratchBytes,
    tensors: [
      { ...tensor, name: "source", role: "input" },
      { ...tensor, name: "sink", role: "output" },
    ],
  } as const;
  return compileProgram(open, kernel, code);
}

/** Settings bound to buffers that they share; the caller disposes of them. */
class Track {
  readonly #open: OpenDevice;
  readonly #bound: ReadonlyMap<SettingName, BoundProgram>;
  readonly #buffers: readonly GPUBuffer[];

  private constructor(
    open: OpenDevice,
    bound: ReadonlyMap<SettingName, BoundProgram>,
    buffers: readonly GPUBuffer[],
  ) {
    this.#open = open;
    this.#bound = bound;
    this.#buffers = buffers;
  }

  static async make(open: OpenDevice, names: readonly SettingName[]): Promise<Track> {
    const programs = await Promise.all(names.map((name) => compiled(open, name)));
    const largest = (of: "sourceBytes" | "sinkBytes" | "scratchBytes"): number =>
      Math.max(...names.map((name) => GPU_SETTINGS[name][of]));
    return open.scoped(() => {
      const [source, sink, scratch] = [
        storageBuffer(open.device, largest("sourceBytes")),
        storageBuffer(open.device, largest("sinkBytes")),
        storageBuffer(open.device, largest("scratchBytes")),
      ] as const;
      const bound = programs.map((program, i) => {
        const own = program.kernel.scratch_bytes > 0 ? [scratch] : [];
        return [
          names[i] as SettingName,
          new BoundProgram(program, [source, sink, ...own]),
        ] as const;
      });
      return new Track(open, new Map(bound), [source, sink, scratch]);
    }, LIMIT_MS);
  }

  timer(name: SettingName): Promise<GpuTimer> {
    const bound = this.#bound.get(name) as BoundProgram;
    return gpuTimer(this.#open, (pass) => bound.encode(pass, 0, 1), LIMIT_MS);
  }

  /** One iteration is a slice, or a whole call. */
  entrant(name: SettingName, timer: GpuTimer): Entrant {
    const bound = this.#bound.get(name) as BoundProgram;
    const slices = WHOLE.has(name) ? 1 : bound.slices;
    return {
      work: GPU_SETTINGS[name].work / slices,
      async timed(count) {
        const encode = (pass: GPUComputePassEncoder): void => {
          for (let call = slices; call <= count; call += slices) bound.encode(pass);
          if (count % slices > 0) bound.encode(pass, 0, count % slices);
        };
        return (await timer.passNs(encode, LIMIT_MS)) / 1e6;
      },
    };
  }

  dispose(): void {
    for (const bound of this.#bound.values()) bound.dispose();
    for (const buffer of this.#buffers) buffer.destroy();
  }
}

/** Rates in units of the settings' work per nanosecond. */
async function ratesOf(
  open: OpenDevice,
  names: readonly SettingName[],
  limits: (stepMs: number) => RaceLimits,
): Promise<{ readonly rates: Rates; readonly settled: boolean }> {
  const track = await Track.make(open, names);
  try {
    const timer = await track.timer(names[0] as SettingName);
    const entrants = names.map((name) => track.entrant(name, timer));
    const { rates, settled } = await race(entrants, limits(timer.stepMs), now);
    timer.dispose();
    return { rates: named(names, rates), settled };
  } finally {
    track.dispose();
  }
}

/** One bit for each primitive, by a comparison of its own. */
async function bitsOf(
  open: OpenDevice,
): Promise<{ readonly bits: string; readonly settled: boolean }> {
  const compared = GPU_PRIMITIVES.filter(
    ({ base, advanced }) => offered(open, base) && offered(open, advanced),
  );
  const names = [...new Set(compared.flatMap(({ base, advanced }) => [base, advanced]))];
  const track = await Track.make(open, names);
  const timer = await track.timer("direct");
  try {
    const limits = { sampleMs: Math.max(1, STEPS * timer.stepMs), limitMs: DUEL_MS };
    let [bits, settled] = ["", true];
    for (const primitive of GPU_PRIMITIVES) {
      if (!compared.includes(primitive)) {
        bits += "0";
        continue;
      }
      const { base, advanced, margin } = primitive;
      const pair = [track.entrant(base, timer), track.entrant(advanced, timer)] as const;
      const verdict = await faster(...pair, margin, limits, now);
      bits += verdict.faster ? "1" : "0";
      settled &&= verdict.settled;
    }
    return { bits, settled };
  } finally {
    timer.dispose();
    track.dispose();
  }
}

/** Limits for levels, which the traffic of others on the memory and in the queue disturbs. */
const rough = (stepMs: number): RaceLimits => ({
  sampleMs: Math.max(0.5, STEPS * stepMs),
  sameWithin: 1.3,
  quietRounds: () => 2,
  limitMs: 150,
});

/** Limits for the peak rate of the GPU. */
const fine = (stepMs: number): RaceLimits => ({
  sampleMs: Math.max(1, STEPS * stepMs),
  sameWithin: 1.1,
  quietRounds: () => 3,
  limitMs: 500,
});

/** 0 where the buffer does not fit, or takes too long to fill with zeros. */
async function bandwidthGbps(open: OpenDevice): Promise<number> {
  try {
    return (await ratesOf(open, ["stream"], rough)).rates.get("stream") ?? 0;
  } catch (thrown) {
    if (open.loss !== null) throw thrown;
    return 0;
  }
}

/**
 * Measures the bits and the rates. An adapter that the browser falls back to is a processor, which
 * has other work: its bits are all 0, and the probe of wasm has measured its memory. Throws
 * KernelZooError.
 */
export async function runSuite(open: OpenDevice): Promise<SuiteResult> {
  const software = open.isSoftware;
  const none = { bits: GPU_PRIMITIVES.map(() => "0").join(""), settled: true };
  const { bits, settled } = software ? none : await bitsOf(open);
  const peak = await ratesOf(open, ["peak"], fine);
  const dispatches = await ratesOf(open, ["nothing"], rough);
  const perNs = dispatches.rates.get("nothing") ?? 0;
  return {
    bits,
    peakGflops: peak.rates.get("peak") ?? 0,
    bandwidthGbps: software ? 0 : await bandwidthGbps(open),
    dispatchUs: perNs > 0 ? 1 / (1e3 * perNs) : 0,
    settled: settled && peak.settled,
  };
}
