/**
 * The microbenchmark suite of the page: ρ, the limit of one core, and what the caches give. It is
 * fetched when it runs.
 */
import { fromHex } from "../engine/bytes.js";
import { clockStepMs, now } from "../timing/clock.js";
import { bit, type DuelLimits, doubtful, faster } from "./duel.js";
import { DATA_BYTES, PEAKS, PRIMITIVES, STREAM, SUITE } from "./modules.js";
import { type Entrant, onClock, type RaceLimits, type RaceStanding, race } from "./race.js";

type Primitives = readonly { readonly margin: number }[];

/** One setting of a primitive: `flops` are those of one iteration, `body` is hexadecimal. */
interface Setting {
  readonly requires: readonly string[];
  readonly flops: number;
  readonly body: string;
}

/** Register-only limit of one core in GFLOP/s, products and sums apart or fused; 0 without. */
export interface Peaks {
  readonly mulAdd: number;
  readonly fma: number;
}

/**
 * `rho` as `r<suite>-<bits>`, bit i for primitive i. A probe that did not settle is worth
 * repeating at the next visit.
 */
export interface ProbeResult {
  readonly rho: string;
  readonly peaks: Peaks;
  readonly settled: boolean;
}

const PAGE_BYTES = 65_536;
/** Steps of the clock in the shortest sample, so that it is wrong by 10 % at the most. */
const STEPS = 10;
const COARSE_CLOCK_WITHIN = 1.15;
/**
 * Limits for ρ: settings differ by 28 % and more, or not at all, and no margin is below a seventh.
 */
const COARSE = { sampleMs: 1, sameWithin: 1.08, limitMs: 800 };
/** The longest duel for a bit that the race leaves in doubt. */
const DUEL_MS = 400;
/** Limits for a rate that people read. */
const FINE: RaceLimits = {
  sampleMs: 2,
  sameWithin: 1.02,
  quietRounds: () => 4,
  limitMs: 200,
};
/** Limits for octaves: rates of memory depend on the traffic of others and never settle. */
const ROUGH: RaceLimits = { sampleMs: 0.5, sameWithin: 1.3, quietRounds: () => 2, limitMs: 150 };
/**
 * An advanced setting this much slower than its base may run baseline code still, and so may a base
 * whose advanced setting is as much faster than its margin.
 */
const BASELINE_BELOW = 0.6;

type ProbeMain = (bytes: number, lo: number, hi: number) => void;

/** Samples are longer where the clock is coarse, as its steps would make rates differ. */
function onThisClock(limits: RaceLimits): RaceLimits {
  const shortestMs = STEPS * clockStepMs();
  if (shortestMs <= limits.sampleMs / 2) return limits;
  const sameWithin = Math.max(limits.sameWithin, COARSE_CLOCK_WITHIN);
  return { ...limits, sampleMs: 2 * shortestMs, sameWithin };
}

/**
 * Writes the zeros, as reads of untouched memory would all find one page that the system shares.
 */
function zeros(bytes: number): WebAssembly.Memory {
  const pages = Math.ceil(bytes / PAGE_BYTES) + 1;
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  new Uint8Array(memory.buffer).fill(0);
  return memory;
}

function mainOf(body: string, memory: WebAssembly.Memory): ProbeMain {
  const module = new WebAssembly.Module(fromHex(body));
  return new WebAssembly.Instance(module, { env: { memory } }).exports.main as ProbeMain;
}

/** The entrant of each setting, which read `bytes`; null where its features are missing. */
function entrantsOf(
  settings: readonly Setting[],
  bytes: number,
  features: readonly string[],
): readonly (Entrant | null)[] {
  const memory = zeros(bytes);
  return settings.map(({ requires, flops, body }) => {
    if (!requires.every((feature) => features.includes(feature))) return null;
    const main = mainOf(body, memory);
    return { work: flops, timed: onClock((count) => main(0, 0, count), now) };
  });
}

/** GFLOP/s of each entrant; 0 where there is none. */
async function flopRates(
  entrants: readonly (Entrant | null)[],
  limits: RaceLimits,
): Promise<RaceStanding> {
  const offered = entrants.filter((entrant) => entrant !== null);
  const { rates, settled } = await race(offered, onThisClock(limits), now);
  const rateOf = new Map(offered.map((entrant, i) => [entrant, rates[i] as number]));
  return { rates: entrants.map((entrant) => (entrant && rateOf.get(entrant)) ?? 0), settled };
}

/** Advanced over base of primitive `i`. */
const ratio = (rates: readonly number[], i: number): number =>
  (rates[2 * i + 1] ?? 0) / (rates[2 * i] ?? 1);

/**
 * Returns whether a setting may run baseline code still. Settings that are missing are in no doubt.
 */
export function unlikely(primitives: Primitives, rates: readonly number[]): boolean {
  return primitives.some(({ margin }, i) => {
    const reached = ratio(rates, i);
    return reached > 0 && (reached < BASELINE_BELOW || reached > margin / BASELINE_BELOW);
  });
}

/**
 * The bit of primitive `i`. The best samples of a race decide what is clear; close to the margin,
 * one disturbed best would turn the bit, and rounds in which both take part decide.
 */
async function settledBit(
  i: number,
  margin: number,
  entrants: readonly (Entrant | null)[],
  rates: readonly number[],
  { sampleMs }: RaceLimits,
): Promise<{ readonly value: "0" | "1"; readonly settled: boolean }> {
  const [base, advanced] = [entrants[2 * i], entrants[2 * i + 1]];
  if (!base || !advanced || !doubtful(ratio(rates, i), margin)) {
    return { value: bit(rates[2 * i] ?? 0, rates[2 * i + 1] ?? 0, margin), settled: true };
  }
  const limits: DuelLimits = { sampleMs, limitMs: DUEL_MS };
  const verdict = await faster(base, advanced, margin, limits, now);
  return { value: verdict.faster ? "1" : "0", settled: verdict.settled };
}

/**
 * Measures ρ and the limit of one core; never holds a page long. About 100 ms where the clock is
 * fine, 250 ms elsewhere, and more on a busy machine.
 */
export async function probe(features: readonly string[]): Promise<ProbeResult> {
  const pairs = PRIMITIVES.flatMap(({ base, advanced }): readonly Setting[] => [base, advanced]);
  const entrants = entrantsOf([...pairs, PEAKS.mulAdd, PEAKS.fma], DATA_BYTES, features);
  const coarse: RaceLimits = {
    ...COARSE,
    quietRounds: (rates) => (unlikely(PRIMITIVES, rates) ? 12 : 3),
  };
  const { rates, settled } = await flopRates(entrants, coarse);
  const bits: Awaited<ReturnType<typeof settledBit>>[] = [];
  for (const [i, { margin }] of PRIMITIVES.entries()) {
    bits.push(await settledBit(i, margin, entrants, rates, onThisClock(coarse)));
  }
  const [mulAdd = 0, fma = 0] = rates.slice(2 * PRIMITIVES.length);
  return {
    rho: `r${SUITE}-${bits.map(({ value }) => value).join("")}`,
    peaks: { mulAdd, fma },
    settled: settled && bits.every((verdict) => verdict.settled),
  };
}

/** About 50 ms. */
export async function measurePeaks(features: readonly string[]): Promise<Peaks> {
  const entrants = entrantsOf([PEAKS.mulAdd, PEAKS.fma], DATA_BYTES, features);
  const { rates } = await flopRates(entrants, FINE);
  const [mulAdd = 0, fma = 0] = rates;
  return { mulAdd, fma };
}

/** GB/s of working sets of so many bytes, one line of 64 for each load. About 50 ms, in 28 MiB. */
export async function measureLines(sets: readonly number[]): Promise<RaceStanding> {
  const memory = zeros(Math.max(...sets));
  const main = mainOf(STREAM, memory);
  const entrants = sets.map(
    (bytes): Entrant => ({
      work: bytes,
      timed: onClock((count) => main(bytes, 0, count), now),
    }),
  );
  return race(entrants, onThisClock(ROUGH), now);
}
