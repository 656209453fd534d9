import assert from "node:assert/strict";
import { test } from "node:test";
import type { Place } from "../src/weights/cached-model.js";
import { firstCosts, keptCosts } from "../src/weights/preparer.js";
import { nextOf, schedule, Trials, type Way, type WeightCosts } from "../src/weights/schedule.js";
import type { PlanWire } from "../src/wire/model-answer.js";

/** Numbers from 0 to 1 that are the same in every run. */
function drawing(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Up to six weights with up to two ways each; a way is fetched, packed from a kept copy, or read. */
function drawn(seed: number): WeightCosts {
  const draw = drawing(seed);
  const whole = (most: number): number => Math.floor(draw() * (most + 1));
  const count = 1 + whole(4);
  const kinds = 1 + whole(2);
  const way = (): Way => {
    const kind = whole(kinds);
    return {
      fetchMs: kind === 1 ? 1 + whole(9) : 0,
      prepareMs: whole(9),
      receiver: kind > 0,
    };
  };
  let weights = 0;
  return {
    weights: Array.from({ length: count }, () => Array.from({ length: 1 + whole(1) }, way)),
    calls: Array.from({ length: count }, (_, i) => {
      weights = i === count - 1 ? count : Math.min(count, weights + whole(2));
      return { weights, runMs: whole(9) };
    }),
    beside: whole(2),
    startMs: whole(5),
  };
}

/** The soonest end of all ways and threads. */
function soonest(costs: WeightCosts): number {
  const { weights, beside } = costs;
  let best = Number.POSITIVE_INFINITY;
  const trials = new Trials(costs);
  const visit = (receiver: number, ways: number[], threads: number[]): void => {
    const all = weights[ways.length];
    if (all === undefined) {
      best = Math.min(best, trials.times({ receiver, ways, threads }).endMs);
      return;
    }
    for (const [i, way] of all.entries()) {
      for (let thread = 0; thread <= beside; thread++) {
        if (!way.receiver || thread === receiver) {
          visit(receiver, [...ways, i], [...threads, thread]);
        }
      }
    }
  };
  for (let receiver = 0; receiver <= Math.min(1, beside); receiver++) visit(receiver, [], []);
  return best;
}

test("no schedule of a small model ends later than 1.1 times the soonest", () => {
  for (let seed = 0; seed < 1500; seed++) {
    const costs = drawn(seed);
    const found = schedule(costs);
    const best = soonest(costs);
    assert.equal(found.endMs, new Trials(costs).times(found).endMs);
    assert.ok(found.endMs <= 1.1 * best + 1e-9, `seed ${seed}: ${found.endMs} for ${best}`);
  }
});

const read = (prepareMs: number): Way => ({ fetchMs: 0, prepareMs, receiver: false });

test("preparation overlaps with the run, and the predicted end says by how much", () => {
  const weights = Array.from({ length: 4 }, () => [read(10)]);
  const calls = weights.map((_, i) => ({ weights: i + 1, runMs: 10 }));
  const alone = schedule({ weights, calls, beside: 0, startMs: 0 });
  assert.equal(alone.endMs, 80);
  const { endMs, queues } = schedule({ weights, calls, beside: 1, startMs: 0 });
  assert.equal(endMs, 50);
  assert.deepEqual(queues.flat().sort(), [0, 1, 2, 3]);
  assert.equal(schedule({ weights, calls, beside: 1, startMs: 500 }).endMs, 80);
});

test("a weight is read as it was packed, or plain and packed again, whichever this device does sooner", () => {
  const pack = (readMs: number, packMs: number): Way => {
    return { fetchMs: 0, prepareMs: readMs + packMs, receiver: true };
  };
  const weights = [
    [read(8), pack(2, 3)],
    [read(2), pack(2, 3)],
  ];
  const calls = [{ weights: 2, runMs: 1 }];
  assert.deepEqual(schedule({ weights, calls, beside: 0, startMs: 0 }).ways, [1, 0]);
});

test("bytes come one after the other, and what comes later is prepared later", () => {
  const fetched: Way = { fetchMs: 10, prepareMs: 1, receiver: true };
  const weights = [[fetched], [fetched], [fetched]];
  const calls = [{ weights: 3, runMs: 5 }];
  assert.equal(schedule({ weights, calls, beside: 0, startMs: 0 }).endMs, 36);
});

test("a thread whose queue is done takes over the first weight of the longest queue", () => {
  const queues = [[0, 1], [2, 3, 4], [5]];
  const left = (done: readonly number[]) => (weight: number) => (done.includes(weight) ? 0 : 10);
  assert.equal(nextOf(queues, 2, left([])), 5);
  assert.equal(nextOf(queues, 2, left([2, 5])), 0, "the other two have as much left");
  assert.equal(nextOf(queues, 2, left([0, 5])), 2);
  assert.equal(nextOf(queues, 0, left([0, 1, 2, 3, 4, 5])), undefined);
});

/** A model of 20 layers with weights of so many megabytes together. */
function planOf(megabytes: number): PlanWire {
  const bytes = (megabytes * 1e6) / 20;
  const weights = Array.from({ length: 20 }, (_, i) => ({ offset: i * bytes, bytes }));
  const tensors = weights.map((_, weight) => ({ weight }));
  const calls = weights.map((_, i) => ({ kernel: 0, tensors: [i] }));
  return { weights, tensors, calls } as unknown as PlanWire;
}

test("a worker beside receives the weights of a large model, of which nothing was measured yet", () => {
  assert.equal(schedule(firstCosts(planOf(100), 3)).receiver, 1);
  assert.equal(schedule(firstCosts(planOf(10), 3)).receiver, 0, "it would start too late");
  assert.equal(schedule(firstCosts(planOf(100), 0)).receiver, 0, "there is none");
});

test("of what a device measured follows which weights are kept plain", () => {
  const place = (bytes: number): Partial<Place> => {
    return { bytes, plainBytes: 1 << 20, staged: true, keptPlain: true };
  };
  const places = [place(4 << 20), place(4 << 20), place(1 << 20)] as Place[];
  const packMs = [1, 100, 1];
  const calls = [{ weights: 3, runMs: 1 }];
  const first = { weights: [], calls, beside: 0, startMs: 0 };
  const kept = keptCosts(places, first, { readMs: 2, packMs, runMs: [5] }, 0);
  const { ways, endMs } = schedule(kept);
  assert.deepEqual(ways, [1, 0, 0]);
  assert.equal(endMs, 3 + 8 + 2 + 5);
});
