/** The microbenchmark suite of the page: ρ and the register-only limit of one core. */
import { fromBase64 } from "../engine/bytes.js";
import { clockStepMs, now } from "../timing/clock.js";
import { type Contestant, sampleNs } from "../timing/samples.js";
import { warmUp } from "../timing/warmup.js";

/** One primitive. Modules export `main(out, lo, hi)`: hi − lo iterations in registers. */
export interface ProbeModule {
  readonly primitive: string;
  /** Features of the advanced setting. */
  readonly requires: readonly string[];
  readonly flopsPerIteration: { readonly base: number; readonly advanced: number };
  /** Base64 of the two wasm modules. */
  readonly base: string;
  readonly advanced: string;
}

/** `rho` as `r<suite>-<bits>`, bit i for primitive i; `peakGflops` of one core. */
export interface ProbeResult {
  readonly rho: string;
  readonly peakGflops: number;
}

/** Advanced must win by this much, so that a tie is 0 on every visit. */
const MARGIN = 1.2;
const ROUNDS = 8;
const SAMPLE_MS = 1.5;
/** The range that is warmed up: 0.1 ms at 60 GFLOP/s, so that slow devices are done soon too. */
const ITERATIONS = 1 << 14;
/** Beyond the longest wait of a page between frames, let it run. */
const LONGEST_STRETCH_MS = 8;

interface Setting {
  readonly flops: number;
  run(lo: number, hi: number): void;
}

interface Rates {
  readonly base: number;
  readonly advanced: number;
}

/** '1' where the advanced setting is faster by the margin; rates in GFLOP/s, 0 where missing. */
export function bit({ base, advanced }: Rates): "0" | "1" {
  return advanced >= MARGIN * base && advanced > 0 ? "1" : "0";
}

function load(text: string, flops: number, memory: WebAssembly.Memory): Setting | undefined {
  const bytes = fromBase64(text);
  if (!WebAssembly.validate(bytes)) return undefined;
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } });
  const main = exports.main as (out: number, lo: number, hi: number) => void;
  return { flops, run: (lo, hi) => main(0, lo, hi) };
}

/** Warms up and sizes a sample: enough iterations for `SAMPLE_MS` or 40 steps of the clock. */
function contestant(setting: Setting, stepMs: number): Contestant & { readonly count: number } {
  const slices = { extent: ITERATIONS, run: setting.run };
  const limits = { stepMs, patienceMs: 8, limitMs: 20, deadlineMs: now() + 100 };
  const result = warmUp(slices, limits);
  const perIteration = result.kind === "late" ? 1e-4 : result.callMs / ITERATIONS;
  const count = Math.ceil(Math.max(SAMPLE_MS, 40 * stepMs) / Math.max(perIteration, 1e-8));
  return { count, calls: 1, call: () => setting.run(0, count) };
}

/** Lets the page run when more than `LONGEST_STRETCH_MS` have passed since the last time. */
function breather(): () => Promise<void> {
  let last = now();
  return async () => {
    if (now() - last < LONGEST_STRETCH_MS) return;
    await new Promise<void>((resolve) => setTimeout(resolve));
    last = now();
  };
}

/** Fastest sample of each setting over interleaved rounds, in GFLOP/s. */
async function rates(settings: readonly Setting[], stepMs: number): Promise<readonly number[]> {
  const breathe = breather();
  const best = settings.map(() => 0);
  const contestants: (Contestant & { readonly count: number })[] = [];
  for (const setting of settings) {
    contestants.push(contestant(setting, stepMs));
    await breathe();
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, each] of contestants.entries()) {
      const { flops } = settings[i] as Setting;
      best[i] = Math.max(best[i] as number, (flops * each.count) / sampleNs(each));
      await breathe();
    }
  }
  return best;
}

async function ratesOf(
  probe: ProbeModule,
  features: readonly string[],
  memory: WebAssembly.Memory,
  stepMs: number,
): Promise<Rates> {
  const { flopsPerIteration: flops } = probe;
  const offered = probe.requires.every((feature) => features.includes(feature));
  const base = load(probe.base, flops.base, memory);
  const advanced = offered ? load(probe.advanced, flops.advanced, memory) : undefined;
  const present = [base, advanced].filter((setting) => setting !== undefined);
  const found = new Map((await rates(present, stepMs)).map((rate, i) => [present[i], rate]));
  return { base: found.get(base) ?? 0, advanced: found.get(advanced) ?? 0 };
}

/** Runs `probes` and answers ρ under version `suite`. About 100 ms; never holds a page long. */
export async function probe(
  probes: readonly ProbeModule[],
  suite: number,
  features: readonly string[],
): Promise<ProbeResult> {
  const stepMs = clockStepMs();
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  const measured: Rates[] = [];
  for (const one of probes) measured.push(await ratesOf(one, features, memory, stepMs));
  return {
    rho: `r${suite}-${measured.map(bit).join("")}`,
    peakGflops: Math.max(0, ...measured.flatMap(({ base, advanced }) => [base, advanced])),
  };
}
