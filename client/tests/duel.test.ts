import assert from "node:assert/strict";
import { test } from "node:test";
import { faster } from "../src/probe/duel.js";
import type { Entrant } from "../src/probe/race.js";

const LIMITS = { sampleMs: 2, limitMs: 1_000 };

/** Milliseconds of an iteration in each sample in turn, the last for ever. */
function entrant(advance: (ms: number) => void, iterationMs: readonly number[]): Entrant {
  let sample = 0;
  return {
    work: 1,
    timed: (count) => {
      const each = iterationMs[Math.min(sample++, iterationMs.length - 1)] as number;
      advance(each * count);
      return each * count;
    },
  };
}

async function duel(base: readonly number[], advanced: readonly number[], limits = LIMITS) {
  let elapsed = 0;
  const advance = (ms: number): void => {
    elapsed += ms;
  };
  const pair = [entrant(advance, base), entrant(advance, advanced)] as const;
  return { ...(await faster(...pair, 1.4, limits, () => elapsed)), elapsed };
}

test("a setting that is clearly faster wins in five rounds, one that is slower loses", async () => {
  assert.deepEqual(await duel([4], [2]), { faster: true, settled: true, elapsed: 5 * 6 });
  assert.deepEqual(await duel([2], [4]), { faster: false, settled: true, elapsed: 5 * 6 });
});

test("faster by less than the margin is not faster", async () => {
  assert.equal((await duel([2.6], [2])).faster, false);
  assert.equal((await duel([2.8], [2])).faster, true);
});

test("four disturbed rounds of nine change nothing", async () => {
  const disturbed = [9, 9, 2, 9, 2, 9, 2];
  assert.deepEqual((await duel([4], disturbed)).faster, true);
  assert.deepEqual((await duel([4, 40, 4, 40, 40, 40, 4], [4])).faster, false);
});

test("short samples are made longer, and time that runs out leaves it open", async () => {
  assert.equal((await duel([0.1], [0.05])).faster, true);
  const open = await duel([40], [20], { sampleMs: 2, limitMs: 100 });
  assert.deepEqual([open.faster, open.settled], [true, false]);
});
