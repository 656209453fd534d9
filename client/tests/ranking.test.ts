import assert from "node:assert/strict";
import { test } from "node:test";
import { ballotLines, fastest, relativeTimes } from "../src/agent/ranking.js";
import { KernelZooError } from "../src/engine/error.js";
import { failureOf } from "../src/measurer/measurement.js";
import { relativeTime } from "../src/timing/samples.js";
import type { MeasurementWire } from "../src/wire/types.js";
import { tinyKernel } from "./kernels.js";

const ranked = (candidate: string, time: number) => ({
  kernel: { ...tinyKernel("add", 4), candidate },
  relativeTime: time,
});

const measurement = (candidate: string, own: number[], reference: number[]): MeasurementWire => ({
  candidate,
  outcome: "ok",
  samples_ns: own,
  reference_ns: reference,
  calls_per_sample: 1,
  sampled_entries: [],
  detail: "",
});

test("a ballot holds the five fastest, fastest first, ties by candidate id", () => {
  const all = [5, 2, 9, 1, 3, 7].map((time) => ranked(`c${time}`, time));
  const lines = ballotLines(fastest([...all, ranked("a2", 2)]));
  assert.deepEqual(
    lines.map(({ candidate }) => candidate),
    ["c1", "a2", "c2", "c3", "c5"],
  );
  assert.equal(lines[0]?.relative_time, 1);
});

test("the relative time is that of the best samples", () => {
  assert.equal(relativeTime([9, 4, 7], [8, 10]), 0.5);
});

test("a reference that was disturbed beside one candidate does not make it look fast", () => {
  const times = relativeTimes([
    measurement("a", [10], [10, 11]),
    measurement("b", [10], [20, 20]),
    { ...measurement("c", [], []), outcome: "run" },
  ]);
  assert.deepEqual(
    [...times],
    [
      ["a", 1],
      ["b", 1],
    ],
  );
});

test("a failure is a measurement with its stage; a failure of the network is thrown on", () => {
  const kernel = tinyKernel("add", 4);
  const made = failureOf(kernel, new KernelZooError("artifact", "x".repeat(900)));
  assert.equal(made.outcome, "validate");
  assert.equal(made.detail.length, 500);
  assert.throws(() => failureOf(kernel, new KernelZooError("network", "gone")), /gone/);
  assert.throws(() => failureOf(kernel, new TypeError("a mistake of ours")), TypeError);
});
