/** The microbenchmark suite of GPUs: ρ, the limit of the GPU, its memory, and its dispatches. */
import { BoundProgram } from "../gpu/bound.js";
import { storageBuffer } from "../gpu/buffers.js";
import type { OpenDevice } from "../gpu/device.js";
import { compileProgram, type Program } from "../gpu/program.js";
import { type GpuTimer, gpuTimer } from "../gpu/timer.js";
import { faster } from "./duel.js";
import { GPU_SUITE } from "./gpu-suite.js";
import { type Entrant, type RaceLimits, race } from "./race.js";

/** Twenty kilobytes of text that most page loads do not need: fetched when the probe runs. */
const loadSuite = () => import("./gpu-modules.js");

type Suite = Awaited<ReturnType<typeof loadSuite>>;
type Name = keyof Suite["GPU_SETTINGS"];

/**
 * `rho` as `r<suite>-<bits>`, bit i for primitive i. Rates are of the whole GPU; 0 is unknown. A
 * probe that did not settle is worth repeating at the next visit.
 */
export interface GpuProbeResult {
  readonly rho: string;
  readonly peakGflops: number;
  readonly bandwidthGbps: number;
  readonly dispatchUs: number;
  readonly settled: boolean;
}

/** A driver that needs longer for one of these is of no use for kernels either. */
const LIMIT_MS = 10_000;
/** Timed as whole calls; of the others a sample may be any number of workgroups. */
const WHOLE: ReadonlySet<Name> = new Set(["whole", "split", "nothing"]);
/** A comparison that takes longer has its bit by what was seen until then, and is not settled. */
const DUEL_MS = 500;
/** Steps of the timer in a sample, so that its shortest is wrong by 5 %. */
const STEPS = 40;

/** The rates of settings, in the order of `names`. */
type Rates = ReadonlyMap<Name, number>;

const named = (names: readonly Name[], rates: readonly number[]): Rates =>
  new Map(names.map((name, i) => [name, rates[i] ?? 0]));

/** Whether the device has what a setting requires. */
const offered = ({ features }: OpenDevice, { GPU_SETTINGS }: Suite, name: Name): boolean =>
  GPU_SETTINGS[name].requires.every((feature) => features.includes(feature));

async function compiled(open: OpenDevice, suite: Suite, name: Name): Promise<Program> {
  const { code, dispatches, scratchBytes } = suite.GPU_SETTINGS[name];
  const tensor = { dtype: "f32", shape: [], limit: 0 } as const;
  const kernel = {
    candidate: name,
    requires: suite.GPU_SETTINGS[name].requires,
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
  readonly #suite: Suite;
  readonly #bound: ReadonlyMap<Name, BoundProgram>;
  readonly #buffers: readonly GPUBuffer[];

  private constructor(
    open: OpenDevice,
    suite: Suite,
    bound: ReadonlyMap<Name, BoundProgram>,
    buffers: readonly GPUBuffer[],
  ) {
    this.#open = open;
    this.#suite = suite;
    this.#bound = bound;
    this.#buffers = buffers;
  }

  static async make(open: OpenDevice, suite: Suite, names: readonly Name[]): Promise<Track> {
    const programs = await Promise.all(names.map((name) => compiled(open, suite, name)));
    const largest = (of: "sourceBytes" | "sinkBytes" | "scratchBytes"): number =>
      Math.max(...names.map((name) => suite.GPU_SETTINGS[name][of]));
    return open.scoped(() => {
      const [source, sink, scratch] = [
        storageBuffer(open.device, largest("sourceBytes")),
        storageBuffer(open.device, largest("sinkBytes")),
        storageBuffer(open.device, largest("scratchBytes")),
      ] as const;
      const bound = programs.map((program, i) => {
        const own = program.kernel.scratch_bytes > 0 ? [scratch] : [];
        return [names[i] as Name, new BoundProgram(program, [source, sink, ...own])] as const;
      });
      return new Track(open, suite, new Map(bound), [source, sink, scratch]);
    }, LIMIT_MS);
  }

  timer(name: Name): Promise<GpuTimer> {
    const bound = this.#bound.get(name) as BoundProgram;
    return gpuTimer(this.#open, (pass) => bound.encode(pass, 0, 1), LIMIT_MS);
  }

  /** One iteration is a slice, or a whole call. */
  entrant(name: Name, timer: GpuTimer): Entrant {
    const bound = this.#bound.get(name) as BoundProgram;
    const slices = WHOLE.has(name) ? 1 : bound.slices;
    return {
      work: this.#suite.GPU_SETTINGS[name].work / slices,
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
  suite: Suite,
  names: readonly Name[],
  limits: (stepMs: number) => RaceLimits,
): Promise<{ readonly rates: Rates; readonly settled: boolean }> {
  const track = await Track.make(open, suite, names);
  try {
    const timer = await track.timer(names[0] as Name);
    const entrants = names.map((name) => track.entrant(name, timer));
    const { rates, settled } = await race(entrants, limits(timer.stepMs));
    timer.dispose();
    return { rates: named(names, rates), settled };
  } finally {
    track.dispose();
  }
}

/** One bit for each primitive, by a comparison of its own. */
async function bitsOf(
  open: OpenDevice,
  suite: Suite,
): Promise<{ readonly bits: string; readonly settled: boolean }> {
  const compared = suite.GPU_PRIMITIVES.filter(
    ({ base, advanced }) => offered(open, suite, base) && offered(open, suite, advanced),
  );
  const names = [...new Set(compared.flatMap(({ base, advanced }) => [base, advanced]))];
  const track = await Track.make(open, suite, names);
  const timer = await track.timer("direct");
  try {
    const limits = { sampleMs: Math.max(1, STEPS * timer.stepMs), limitMs: DUEL_MS };
    let [bits, settled] = ["", true];
    for (const primitive of suite.GPU_PRIMITIVES) {
      if (!compared.includes(primitive)) {
        bits += "0";
        continue;
      }
      const { base, advanced, margin } = primitive;
      const pair = [track.entrant(base, timer), track.entrant(advanced, timer)] as const;
      const found = await faster(...pair, margin, limits);
      bits += found.faster ? "1" : "0";
      settled &&= found.settled;
    }
    return { bits, settled };
  } finally {
    timer.dispose();
    track.dispose();
  }
}

/** For levels: whatever the memory and the driver's queue are asked to do beside it. */
const rough = (stepMs: number): RaceLimits => ({
  sampleMs: Math.max(0.5, STEPS * stepMs),
  sameWithin: 1.3,
  quietRounds: () => 2,
  limitMs: 150,
});

/** For the limit of the GPU. */
const fine = (stepMs: number): RaceLimits => ({
  sampleMs: Math.max(1, STEPS * stepMs),
  sameWithin: 1.1,
  quietRounds: () => 3,
  limitMs: 500,
});

/** Browsers that do not tell have no such adapter. */
const isSoftware = ({ adapterInfo }: Partial<GPUDevice>): boolean =>
  adapterInfo?.isFallbackAdapter ?? false;

/** 0 where the buffer does not fit, or takes too long to fill with zeros. */
async function bandwidthGbps(open: OpenDevice, suite: Suite): Promise<number> {
  try {
    return (await ratesOf(open, suite, ["stream"], rough)).rates.get("stream") ?? 0;
  } catch (thrown) {
    if (open.loss !== null) throw thrown;
    return 0;
  }
}

/**
 * Measures ρ and the levels of a GPU. Most of the time is compiling: under a second on a GPU. An
 * adapter that the browser falls back to is a processor, which has other work: its bits are all 0,
 * and its memory is what the probe of wasm has measured. Throws KernelZooError.
 */
export async function probeGpu(open: OpenDevice): Promise<GpuProbeResult> {
  const suite = await loadSuite();
  const software = isSoftware(open.device);
  const none = { bits: suite.GPU_PRIMITIVES.map(() => "0").join(""), settled: true };
  const { bits, settled } = software ? none : await bitsOf(open, suite);
  const peak = await ratesOf(open, suite, ["peak"], fine);
  const dispatches = await ratesOf(open, suite, ["nothing"], rough);
  const perNs = dispatches.rates.get("nothing") ?? 0;
  return {
    rho: `r${GPU_SUITE}-${bits}`,
    peakGflops: peak.rates.get("peak") ?? 0,
    bandwidthGbps: software ? 0 : await bandwidthGbps(open, suite),
    dispatchUs: perNs > 0 ? 1 / (1e3 * perNs) : 0,
    settled: settled && peak.settled,
  };
}
