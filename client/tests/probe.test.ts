import assert from "node:assert/strict";
import { test } from "node:test";
import { readEngine } from "../src/device/hardware.js";
import { memoryNotebook } from "../src/device/notebook.js";
import { noted, probeKey, usualClass } from "../src/device/profile.js";
import { wasmFeatures } from "../src/engine/features.js";
import { bit, doubtful } from "../src/probe/duel.js";
import {
  doubleOctave,
  levelsOf,
  octave,
  quarterOctave,
  WORKING_SETS,
} from "../src/probe/levels.js";
import { PRIMITIVES, SUITE } from "../src/probe/modules.js";
import { measureLines, measurePeaks, probe, unlikely } from "../src/probe/probe.js";
import { type Entrant, onClock, race } from "../src/probe/race.js";
import { SUITE as KNOWN } from "../src/probe/suite.js";

const LIMITS = {
  sampleMs: 1,
  sameWithin: 1.03,
  quietRounds: () => 4,
  limitMs: 500,
};

/** Loops on a clock of their own; `nsOf(timeMs)` is how long one iteration takes then. */
function track(...nsOf: readonly ((timeMs: number) => number)[]) {
  let timeMs = 0;
  const clock = () => timeMs;
  const entrants = nsOf.map((ns): Entrant => {
    const run = (count: number): void => {
      timeMs += (count * ns(timeMs)) / 1e6;
    };
    return { work: 1, timed: onClock(run, clock) };
  });
  return { entrants, clock };
}

test("a race answers the rates of undisturbed loops", async () => {
  const { entrants, clock } = track(
    () => 2,
    () => 5,
  );
  const { rates, settled } = await race(entrants, LIMITS, clock);
  assert.deepEqual(
    rates.map((rate) => rate.toFixed(3)),
    ["0.500", "0.200"],
  );
  assert.ok(settled);
  assert.ok(clock() < 15, `${clock()} ms`);
});

test("a race waits for the loop whose optimised code comes late", async () => {
  const { entrants, clock } = track(
    () => 2,
    (timeMs) => (timeMs < 4 ? 20 : 2),
  );
  const { rates, settled } = await race(entrants, LIMITS, clock);
  assert.ok(Math.abs((rates[0] ?? 0) / (rates[1] ?? 1) - 1) < 0.01, `${rates}`);
  assert.ok(settled);
});

test("a processor that is lost half of the time costs rounds and not the answer", async () => {
  const busy = (ns: number) => (timeMs: number) => (Math.floor(timeMs / 7) % 2 === 0 ? 3 * ns : ns);
  const { entrants, clock } = track(busy(2), busy(3));
  const { rates } = await race(entrants, LIMITS, clock);
  assert.ok(Math.abs((rates[0] ?? 0) / (rates[1] ?? 1) - 1.5) < 0.02, `${rates}`);
});

test("a first iteration that took all of the time is not what a loop is judged by", async () => {
  const { entrants, clock } = track((timeMs) => (timeMs === 0 ? 600e6 : 2));
  const { rates, settled } = await race(entrants, LIMITS, clock);
  assert.ok(Math.abs((rates[0] ?? 0) - 0.5) < 0.01, `${rates}`);
  assert.equal(settled, false);
});

test("a race that never comes to rest ends in time and says so", async () => {
  const { entrants, clock } = track((timeMs) => 1e6 * 0.9 ** timeMs);
  const limits = { ...LIMITS, limitMs: 60 };
  assert.equal((await race(entrants, limits, clock)).settled, false);
  assert.ok(clock() < 120, `${clock()} ms`);
});

test("a bit is 1 from its margin on, and never where a rate is missing", () => {
  assert.equal(bit(50, 69, 1.4), "0");
  assert.equal(bit(50, 70, 1.4), "1");
  assert.equal(bit(50, 0, 1.2), "0");
  assert.equal(bit(0, 0, 1.2), "0");
});

test("a bit is in doubt on both sides of its margin, not at a tie or where it is clear", () => {
  for (const ratio of [1.31, 1.35, 1.4, 1.45, 1.49]) assert.ok(doubtful(ratio, 1.4), `${ratio}`);
  for (const ratio of [0, 0.2, 1, 1.3, 1.5, 2.3]) assert.ok(!doubtful(ratio, 1.4), `${ratio}`);
});

test("a setting far below its base or far above its margin may run baseline code", () => {
  const rates = (fma: number, splat: number) => [60, 60 * fma, 40, 40 * splat, 26, 61];
  assert.equal(unlikely(PRIMITIVES, rates(1, 1.45)), false);
  assert.equal(unlikely(PRIMITIVES, rates(1.8, 1.1)), false);
  assert.equal(unlikely(PRIMITIVES, rates(0, 1.45)), false, "it is missing");
  assert.equal(unlikely(PRIMITIVES, rates(0.2, 1.45)), true);
  assert.equal(unlikely(PRIMITIVES, rates(1, 4)), true);
});

test("a race goes on for as long as its rates ask", async () => {
  const ended = async (quiet: number) => {
    const { entrants, clock } = track(() => 2);
    await race(entrants, { ...LIMITS, quietRounds: () => quiet }, clock);
    return clock();
  };
  assert.ok((await ended(12)) > 2 * (await ended(3)));
});

test("every margin is at least a seventh above a tie", () => {
  for (const { primitive, margin } of PRIMITIVES) assert.ok(margin >= 8 / 7, primitive);
});

test("pages know the version of the suite without its modules", () => {
  assert.equal(KNOWN, SUITE);
});

test("a device is of the usual class until it is probed", async () => {
  const navigator = { userAgent: "", hardwareConcurrency: 4 };
  Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
  assert.match(await usualClass(memoryNotebook()), /^[0-9a-f]{16}:r3-011:wasm/);
  const note = JSON.stringify({ rho: "r3-100" });
  const read = (key: string): string | null => (key.startsWith("probe:") ? note : null);
  assert.match(await usualClass({ read, write: () => undefined }), /:r3-100:wasm/);
});

test("a probe that did not settle is noted, and made again by whoever probes", async () => {
  const notes = memoryNotebook();
  let probes = 0;
  const probed = (settled: boolean) => () => {
    probes++;
    return Promise.resolve({ rho: "r3-110", settled });
  };
  const settled = (each: { readonly settled: boolean }): boolean => each.settled;
  const key = `probe:${probeKey(readEngine())}`;
  await noted(notes, key, probed(false), settled);
  assert.match(await usualClass(notes), /:r3-110:wasm/, "models do not wait for a better one");
  await noted(notes, key, probed(true), settled);
  await noted(notes, key, probed(true), settled);
  assert.equal(probes, 2);
});

test("the probe answers one bit for each primitive and both peaks", async () => {
  const { rho, peaks } = await probe(["simd128"]);
  assert.match(rho, new RegExp(`^r${SUITE}-0[01]{${PRIMITIVES.length - 1}}$`));
  assert.equal(peaks.fma, 0);
  assert.ok(peaks.mulAdd > 0.5);
});

test("the peak with fma is measured where the engine has it", async () => {
  const features = wasmFeatures();
  const { mulAdd, fma } = await measurePeaks(features);
  assert.ok(mulAdd > 0.5);
  assert.equal(fma > 0.5, features.includes("relaxed-simd"));
});

test("lines of every working set arrive, those of the smallest soonest", async () => {
  const { rates: gbps } = await measureLines(WORKING_SETS);
  assert.equal(gbps.length, WORKING_SETS.length);
  assert.ok((gbps[0] ?? 0) > (gbps.at(-1) ?? 0) && (gbps.at(-1) ?? 0) > 0);
});

test("what leaves the page is rounded to the nearest power of two", () => {
  assert.deepEqual([0, 1, 47, 60, 90, 92].map(octave), [0, 1, 64, 64, 64, 128]);
  const unknown = [0.0003, Number.NaN, Number.POSITIVE_INFINITY];
  assert.deepEqual(
    unknown.flatMap((rate) => [octave(rate), doubleOctave(rate)]),
    Array(6).fill(0),
  );
  assert.deepEqual([0, 31, 36, 74, 127, 129].map(doubleOctave), [0, 16, 64, 64, 64, 256]);
  assert.deepEqual([0, 59, 60, 69, 72].map(quarterOctave), [0, 64, 64, 64, 76]);
});

test("the first cache is as large as the largest set that arrives fast", () => {
  const peaks = { mulAdd: 60, fma: 66 };
  const zen5 = levelsOf(peaks, [525, 525, 130, 140, 140, 60]);
  assert.deepEqual(zen5, {
    mul_add_gflops: 64,
    fma_gflops: 64,
    l1_kib: 32,
    l1_gbps: 512,
    l2_gbps: 128,
    memory_gbps: 64,
  });
  assert.equal(levelsOf(peaks, [500, 490, 480, 470, 200, 60]).l1_kib, 128);
  assert.equal(levelsOf(peaks, [500, 200, 190, 190, 200, 60]).l1_kib, 16);
});
