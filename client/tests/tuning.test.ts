import assert from "node:assert/strict";
import { test } from "node:test";
import { best } from "../src/tuning/choosing.js";
import { RunTimes } from "../src/tuning/run-times.js";
import { RunsFirst } from "../src/tuning/runs-first.js";

const PLAN = {
  kernels: ["product", "rest"],
  calls: [0, 1, 0].map((kernel) => ({ kernel, tensors: [], label: "" })),
};

/** Two calls of `product` and one of `rest`, run so often. */
function ran(times: RunTimes, productMs: number, restMs: number, runs = 8): readonly string[] {
  const run = Float64Array.of(0, productMs / 2, 1, 0, restMs, 1, 0, productMs / 2, 1);
  return Array.from({ length: runs }, () => times.ran(run)).flat();
}

test("a kernel that is slower in runs than the one before is named once", () => {
  const times = new RunTimes(PLAN);
  ran(times, 4, 6);
  times.swapped("product", 0.9);
  assert.deepEqual(times.ms, { product: 3.6, rest: 6 }, "what is expected of it");
  assert.deepEqual(ran(times, 4.4, 6, 7), []);
  assert.deepEqual(ran(times, 4.4, 6, 9), ["product"]);
  times.takenBack("product");
  assert.deepEqual(times.ms, { product: 4, rest: 6 });
  assert.deepEqual(ran(times, 9, 6), [], "nothing was swapped");
});

test("a kernel that is as fast, or slower only as all are, stays", () => {
  const times = new RunTimes(PLAN);
  ran(times, 4, 6);
  times.swapped("product", 0.9);
  assert.deepEqual(ran(times, 4.1, 6), []);
  times.swapped("product", 0.9);
  assert.deepEqual(ran(times, 8, 12), []);
  const short = new RunTimes(PLAN);
  ran(short, 0.1, 6);
  short.swapped("product", 0.9);
  assert.deepEqual(ran(short, 0.2, 6), [], "a step of the clock tells nothing");
});

test("where most time may be won is measured first, and others once that was in vain", () => {
  const large = { workload: "large", inferenceMs: 50, callMs: 1, expected: null, inVain: 0 };
  const small = { workload: "small", inferenceMs: 20, callMs: 1, expected: null, inVain: 0 };
  assert.equal(best([small, large])?.workload, "large");
  assert.equal(best([small, { ...large, inVain: 6 }])?.workload, "small");
  assert.equal(best([{ ...small, expected: 0.5 }, large])?.workload, "small");
});

test("a run that is asked for goes before the next slice of whatever else there is", async () => {
  const order: string[] = [];
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const runs = new RunsFirst(turn);
  const work = async (): Promise<void> => {
    for (let i = 0; i < 4; i++) {
      order.push(`slice ${i}`);
      await runs.rest();
    }
  };
  const other = work();
  await turn();
  await runs.first(async () => {
    order.push("run");
    for (let i = 0; i < 9; i++) await turn();
    order.push("ran");
  });
  await other;
  const asked = order.indexOf("run");
  assert.equal(order[asked + 1], "ran", "no slice comes between");
  assert.ok(asked <= 3, "at most the slice that was under way comes before it");
  assert.equal(order.length, 6);
});
