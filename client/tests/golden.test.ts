import assert from "node:assert/strict";
import { test } from "node:test";
import { isNear, wrongOutput } from "../src/executor/golden-tensors.js";
import { Misfit, storedFeeds } from "../src/model/feeds.js";
import type { PlannedCall } from "../src/model/planned-calls.js";
import { profileOf } from "../src/model/profile.js";
import { misfitText } from "../src/sdk/refusals.js";
import type { PlanWire, PortWire } from "../src/wire/model-answer.js";

const real = (...entries: number[]) => new Float32Array(entries);

test("an output is right where no more entries are off than rounding decides", () => {
  const right = real(1, 2, 3, 4);
  const found = real(1, 2, 9, Number.NaN);
  assert.equal(isNear(right, found, 1e-4), false);
  assert.equal(isNear(right, found, 1e-4, 1), false);
  assert.equal(isNear(right, found, 1e-4, 2), true);
});

test("what is infinite allows nothing else to be wrong", () => {
  const right = real(1, Number.POSITIVE_INFINITY);
  assert.equal(isNear(right, real(1, Number.POSITIVE_INFINITY), 1e-4), true);
  assert.equal(isNear(right, real(5, Number.POSITIVE_INFINITY), 1e-4), false);
});

test("labels of a plan may be off, and the scores beside them may not", () => {
  const plan = {
    outputs: [{ name: "labels" }, { name: "scores" }],
    golden: { tolerance: 1e-4, outputs: [{ off: 1 }, {}] },
  } as unknown as PlanWire;
  const labels = Int32Array.of(3, 1, 2);
  const wanted = [labels, real(1, 2)];
  assert.equal(wrongOutput(plan, [Int32Array.of(3, 0, 2), real(1, 2)], wanted), undefined);
  assert.equal(wrongOutput(plan, [Int32Array.of(0, 0, 2), real(1, 2)], wanted), "labels");
  assert.equal(wrongOutput(plan, [labels, real(1, 3)], wanted), "scores");
});

test("integers that choose rows are refused beyond them, with name, value and range", () => {
  const ids: PortWire = { name: "ids", dtype: "int64", shape: [3], tensor: 0, rows: [-9, 8] };
  const fed = (feed: Int32Array | BigInt64Array | number[]) => storedFeeds([ids], { ids: feed });
  assert.deepEqual([...(fed([-9, 0, 8])[0] ?? [])], [-9, 0, 8]);
  const sentence =
    "Input ids (int64) takes whole numbers from -9 to 8, as they choose rows of a table; entry 1 is 9.";
  const fault = (feed: Parameters<typeof fed>[0]): string => {
    try {
      fed(feed);
    } catch (thrown) {
      if (thrown instanceof Misfit) return misfitText(thrown);
    }
    throw new assert.AssertionError({ message: "the feed is taken" });
  };
  assert.equal(fault(BigInt64Array.of(0n, 9n, 0n)), sentence);
  assert.equal(fault(Int32Array.of(0, 9, 0)), sentence);
  assert.match(fault([0, -10, 0]), /entry 1 is -10/);
});

test("a profile of calls that take no time that the clock can tell has shares of 0", async () => {
  const call = { workload: "relu:f32:n64", label: "", level: "default" } as unknown as PlannedCall;
  const model = { inputs: [], plan: { calls: [call] } };
  const run = async () => ({ times: new Float64Array(3) });
  const profile = await profileOf(model, [], run, {});
  assert.match(profile.table(), /0\.00\s+0\.0 %/);
  assert.equal(profile.table().includes("NaN"), false);
  assert.equal(profile.calls[0]?.share, 0);
  for (const runs of [0, -1, 1.5, Number.NaN]) {
    await assert.rejects(
      profileOf(model, [], run, { runs }),
      /runs is to be a whole number from 1/,
    );
  }
});
