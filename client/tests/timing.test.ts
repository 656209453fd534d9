import assert from "node:assert/strict";
import { test } from "node:test";
import { screen } from "../src/measurer/measurement.js";
import { clockStepMs } from "../src/timing/clock.js";
import {
  callsPerSample,
  interleave,
  restingSampler,
  sampleNs,
  samplerOf,
} from "../src/timing/samples.js";
import { warmUp } from "../src/timing/warmup.js";

/** A kernel on a clock of its own: `slowMs` a call until `optimisedAfterMs`, then `fastMs`. */
function simulated(extent: number, slowMs: number, fastMs: number, optimisedAfterMs: number) {
  const ran = new Array<boolean>(extent).fill(false);
  let timeMs = 0;
  return {
    ran,
    clock: () => timeMs,
    kernel: {
      extent,
      run(lo: number, hi: number): void {
        for (let i = lo; i < hi; i++) ran[i] = true;
        timeMs += ((hi - lo) / extent) * (timeMs < optimisedAfterMs ? slowMs : fastMs);
      },
    },
  };
}

const LIMITS = { stepMs: 0.005, patienceMs: 25, limitMs: 150, deadlineMs: 2_000 };

test("warm-up covers the range and settles at the time of the optimised tier", () => {
  const { kernel, clock, ran } = simulated(64, 60, 8, 5);
  const result = warmUp(kernel, LIMITS, clock);
  assert.ok(ran.every(Boolean));
  assert.equal(result.kind, "settled");
  assert.ok(result.kind === "settled" && Math.abs(result.callMs - 8) < 0.5);
  assert.ok(clock() < 30);
});

test("warm-up tells what the first run took and when the code was fast", () => {
  // 5 ms in a tier of 60 ms a call, and the rest in one of 8 ms.
  const { kernel, clock } = simulated(64, 60, 8, 5);
  const result = warmUp(kernel, LIMITS, clock);
  assert.ok(result.kind === "settled");
  assert.ok(result.firstMs > 8 && result.firstMs < 16, `${result.firstMs}`);
  assert.ok(result.fastMs > 5 && result.fastMs < 9, `${result.fastMs}`);
});

test("warm-up waits for a tier that comes late", () => {
  const { kernel, clock } = simulated(8, 4, 0.5, 20);
  const result = warmUp(kernel, LIMITS, clock);
  assert.ok(result.kind === "settled" && Math.abs(result.callMs - 0.5) < 0.05);
});

test("warm-up of code that is fast already ends when its patience does", () => {
  const { kernel, clock } = simulated(64, 2, 2, 0);
  assert.equal(warmUp(kernel, LIMITS, clock).kind, "settled");
  assert.ok(clock() >= 25 && clock() < 40);
});

test("a range that cannot be sliced is called whole", () => {
  const { kernel, clock } = simulated(1, 50, 8, 40);
  const result = warmUp(kernel, LIMITS, clock);
  assert.ok(result.kind === "settled" && Math.abs(result.callMs - 8) < 0.1);
});

for (const extent of [1, 3, 11, 64]) {
  test(`a call of a microsecond over a range of ${extent} is timed in many calls`, () => {
    const { kernel, clock, ran } = simulated(extent, 0.008, 0.001, 3);
    const steps = (): number => Math.floor(clock() / 0.005) * 0.005;
    const result = warmUp(kernel, LIMITS, steps);
    assert.ok(ran.every(Boolean));
    assert.ok(result.kind === "settled" && Math.abs(result.callMs - 0.001) < 1e-4);
    assert.ok(clock() < 60);
  });
}

test("a range that slices do not divide settles as well", () => {
  const { kernel, clock } = simulated(11, 30, 3, 5);
  const result = warmUp(kernel, LIMITS, clock);
  assert.ok(result.kind === "settled" && Math.abs(result.callMs - 3) < 0.1);
});

test("a kernel that would take too long is given up within its range", () => {
  const { kernel, clock, ran } = simulated(64, 60_000, 60_000, 0);
  assert.equal(warmUp(kernel, LIMITS, clock).kind, "late");
  assert.ok(!ran.every(Boolean));
});

test("a sample lasts a hundred steps of the clock and a millisecond", () => {
  assert.equal(callsPerSample(8, 0.005), 1);
  assert.equal(callsPerSample(0.1, 0.005), 10);
  assert.equal(callsPerSample(0.1, 0.1), 100);
  assert.equal(callsPerSample(0, 0.1), 1_000_000);
});

test("a sample is the mean of its calls in nanoseconds", () => {
  let timeMs = 0;
  const call = (): void => {
    timeMs += 2;
  };
  assert.equal(
    sampleNs({ calls: 4, call }, () => timeMs),
    2e6,
  );
});

/** Contestants on one clock; each call takes the next of its times, the last for good. */
function race(ownMs: readonly number[], referenceMs: readonly number[], hopeless?: number) {
  let timeMs = 0;
  const clock = () => timeMs;
  const sampler = (times: readonly number[]) => {
    let called = 0;
    const call = () => {
      timeMs += times[Math.min(called++, times.length - 1)] as number;
    };
    return samplerOf({ calls: 1, call }, clock);
  };
  return screen(sampler(ownMs), sampler(referenceMs), 1_000, clock, hopeless);
}

test("a candidate that lost the processor in its first round is given the others", async () => {
  const { own, reference } = await race([4, 1], [1]);
  assert.deepEqual(own.map(Math.round), [4e6, 1e6, 1e6]);
  assert.equal(reference.length, 3);
});

test("a candidate that is far slower in two rounds is not timed a third time", async () => {
  assert.equal((await race([4], [1])).own.length, 2);
  assert.equal((await race([1.1], [1])).own.length, 3);
  assert.equal((await race([1.1], [1], 1.05)).own.length, 2, "who wants winners says so");
});

test("a clock that rises in the middle of a round makes nobody look faster than it is", async () => {
  const { own, reference } = await race([20, 20, 4], [20, 20, 12, 4]);
  assert.equal(own.length, 5);
  assert.equal(Math.round(Math.min(...own)), Math.round(Math.min(...reference)));
});

test("a device that never does the same twice is given up after six rounds", async () => {
  const halving = [64, 32, 16, 8, 4, 2, 1];
  assert.equal((await race(halving, halving)).own.length, 6);
});

test("rounds are interleaved, and each starts half-way around", async () => {
  const order: string[] = [];
  const sampler = (name: string) => async () => order.push(name);
  const samples = await interleave([sampler("a"), sampler("b")], 3, 3);
  assert.equal(order.join(""), "abbaab");
  assert.deepEqual(
    samples.map(({ length }) => length),
    [3, 3],
  );
});

test("rounds go on until the best sample of everyone was seen twice", async () => {
  const times = [5, 9, 7, 5, 5, 5, 5, 5];
  let timeMs = 0;
  const call = (): void => {
    timeMs += times.shift() ?? 0;
  };
  const [samples] = await interleave([samplerOf({ calls: 1, call }, () => timeMs)], 2, 20);
  assert.deepEqual(samples, [5e6, 9e6, 7e6, 5e6]);
});

test("the step of the clock is found", () => {
  let calls = 0;
  assert.equal(
    clockStepMs(() => Math.floor(calls++ / 10) * 0.5),
    0.5,
  );
});

test("a sample in slices rests after each, and counts none of it", async () => {
  const { kernel, clock } = simulated(64, 32, 32, 0);
  let [rested, rests] = [0, 0];
  const rest = async (): Promise<void> => {
    const before = clock();
    kernel.run(0, 64);
    rested += clock() - before;
    rests++;
  };
  const sample = restingSampler(kernel, { calls: 2, callMs: 32 }, rest, () => clock() - rested);
  assert.ok(Math.abs((await sample()) / 1e6 - 32) < 1e-6);
  assert.ok(rests >= 20, "a slice is of 2.5 ms");
});
