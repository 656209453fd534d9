import assert from "node:assert/strict";
import { test } from "node:test";
import { Dispatcher } from "../src/backend/wasm/dispatch.js";
import { place } from "../src/backend/wasm/memory.js";
import { placeOnGpu } from "../src/backend/webgpu/memory.js";
import { bucketCalls, insteadFor } from "../src/executor/bucket-calls.js";
import type { PlanWire } from "../src/wire/model-answer.js";
import type { KernelWire } from "../src/wire/types.js";

/** Two rows a token of at most 16: doubled by a kernel that has a bucket for up to 4, and again by one that has none. */
const PLAN = {
  needs: ["ranges", "buckets"],
  inputs: [
    { name: "x", tensor: 0, shape: [16, 2] },
    { name: "spare", tensor: 1, shape: [1] },
    { name: "spare of 4", tensor: 2, shape: [1] },
  ],
  outputs: [{ name: "y", tensor: 0, shape: [16, 2] }],
  tensors: [
    { dtype: "f32", shape: [16, 2], at: 0 },
    { dtype: "i32", shape: [1], at: 128 },
    { dtype: "i32", shape: [1], at: 192 },
    { dtype: "f32", shape: [16, 2], at: 256 },
  ],
  weights: [],
  kernels: ["sixteen", "all", "four"],
  calls: [
    { kernel: 0, tensors: [0, 1, 3], label: "first" },
    { kernel: 1, tensors: [3, 1, 0], label: "second" },
  ],
  memory: { weights: 0, activations: 384 },
  axes: [
    {
      ...{ name: "sequence", least: 1, most: 16, input: 1 },
      buckets: [{ most: 4, input: 2, kernels: [[0, 2]] }],
    },
  ],
} as unknown as PlanWire;

const kernelOf = (rows: Readonly<Record<string, number>>) => (workload: string) => {
  const shape = [rows[workload] ?? 16, 2];
  const told = { dtype: "i32", shape: [1], role: "input", name: "spare" };
  const tensors = [
    { dtype: "f32", shape, role: "input", name: "a" },
    told,
    { dtype: "f32", shape, role: "output", name: "c" },
  ];
  const sizes = { scratch_bytes: 0, range_extent: 1, layouts: [] };
  return { sha256: workload, tensors, ...sizes } as unknown as KernelWire;
};

const feeds = (spare: number) =>
  [new Float32Array(32), new Int32Array([spare]), new Int32Array([0])] as never;

test("a run of a short extent makes the calls of its bucket, told what is spare of that", () => {
  const all = bucketCalls(PLAN);
  assert.deepEqual(all, [{ call: 0, kernel: 2, tensors: [0, 2, 3], input: 2 }]);
  for (const spare of [0, 11]) assert.equal(insteadFor(PLAN, all, feeds(spare)).size, 0);
  for (const spare of [12, 15]) {
    assert.deepEqual(insteadFor(PLAN, all, feeds(spare)), new Map([[0, 0]]));
  }
});

test("calls of a bucket lie where those of the plan do", () => {
  const { tasks, bucketTasks } = place(PLAN, kernelOf({ four: 4 }), 1);
  const [first] = tasks;
  const [ofBucket] = bucketTasks;
  assert.equal(ofBucket?.artifact, "four");
  const [a, told, c] = first?.words ?? [];
  assert.deepEqual(ofBucket?.words, [a, (told ?? 0) + 64, c]);
  const gpu = placeOnGpu(PLAN);
  const [own] = gpu.calls;
  assert.deepEqual(gpu.calls[2], [own?.[0], gpu.inputs[2], own?.[2]]);
  const others = gpu.calls
    .slice(0, 2)
    .flat()
    .map((buffer) => JSON.stringify(buffer));
  assert.ok(!others.includes(JSON.stringify(gpu.inputs[2])), "no call writes over what is told");
});

test("a kernel that goes beyond the tensors of its bucket's call is refused", () => {
  assert.throws(() => place(PLAN, kernelOf({ four: 17 }), 1), /four is of other tensors/);
  assert.throws(() => place(PLAN, kernelOf({ sixteen: 4 }), 1), /sixteen is of other tensors/);
});

test("a call of a bucket runs in the place of the plan's, and threads know it by its own number", async () => {
  const ran: string[] = [];
  const mains = new Map(
    ["sixteen", "all", "four"].map((name) => [name, () => void ran.push(name)]),
  );
  const { tasks, bucketTasks } = place(PLAN, kernelOf({ four: 4 }), 1);
  const shared: number[] = [];
  const crew = {
    threads: 2,
    up: () => undefined,
    down: () => undefined,
    run: (task: number) => void shared.push(task),
  };
  const blame = (_: number, cause: unknown) => cause as Error;
  const ports = { breathe: async () => undefined };
  const alone = new Dispatcher(tasks, mains, 0, null, blame, ports, bucketTasks);
  const instead = insteadFor(PLAN, bucketCalls(PLAN), feeds(12));
  const times = await alone.run(() => false, 0, tasks.length, instead);
  assert.deepEqual([...new Set(ran)], ["four", "all"]);
  assert.equal(times?.length, 3 * tasks.length);
  const wide = tasks.map((task) => ({ ...task, extent: 8 }));
  const bucketed = bucketTasks.map((task) => ({ ...task, extent: 8 }));
  const together = new Dispatcher(wide, mains, 0, crew, blame, ports, bucketed);
  await together.run(() => false, 0, tasks.length, instead);
  assert.deepEqual([...new Set(shared)], [2, 1]);
});
