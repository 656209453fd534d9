import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena, firstFit } from "../src/engine/arena.js";
import { addresses } from "../src/engine/instance.js";
import { planMemory } from "../src/engine/tensors.js";
import { tinyKernel } from "./kernels.js";

const kernel = { ...tinyKernel("add", 5), scratch_bytes: 100 };

test("tensors and scratch are aligned to 64 bytes and do not overlap", () => {
  const plan = planMemory(kernel);
  assert.deepEqual(
    plan.regions.map(({ offset }) => offset),
    [0, 64, 128],
  );
  assert.equal(plan.scratchOffset, 192);
  assert.equal(plan.totalBytes, 192 + 128);
});

test("scratch is an argument only where the kernel has any", () => {
  const plan = planMemory(kernel);
  assert.deepEqual(addresses(kernel, plan, 1024), [1024, 1088, 1152, 1216]);
  assert.deepEqual(addresses({ scratch_bytes: 0 }, plan, 1024), [1024, 1088, 1152]);
});

test("the lowest gap that fits is taken, and never address 0", () => {
  assert.deepEqual(firstFit([], 10), { start: 64, end: 74 });
  const taken = [
    { start: 64, end: 100 },
    { start: 256, end: 300 },
  ];
  assert.deepEqual(firstFit(taken, 128), { start: 128, end: 256 });
  assert.deepEqual(firstFit(taken, 129), { start: 320, end: 449 });
});

test("growth keeps earlier views, and freed blocks are lent again", () => {
  const arena = new Arena();
  const first = arena.allocate(64);
  const view = new Float32Array(arena.memory.buffer, first.start, 16);
  view.fill(3);
  const large = arena.allocate(10 * 65_536);
  assert.equal(view[15], 3);
  assert.equal(new Float32Array(arena.memory.buffer, first.start, 16)[15], 3);
  arena.free(first);
  assert.equal(arena.allocate(32).start, first.start);
  assert.ok(arena.memory.buffer.byteLength >= large.end);
});

test("more than the browser has is an error that says what to do", () => {
  assert.throws(() => new Arena().allocate(2 ** 33), /kernels\. Dispose of some/);
});
