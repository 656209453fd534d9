import assert from "node:assert/strict";
import { test } from "node:test";
import type { Manifest } from "../src/wire/types.js";
import { tinyKernel, tinyPackedKernel } from "./kernels.js";
import { ELEMENTS, filled, KEY, manifestOf, open, serve } from "./zoo.js";

/** The plain workload, and the one that is the same but for a constant b. */
function manifestOfBoth(): Manifest {
  const plain = manifestOf(tinyKernel("add", ELEMENTS));
  const [entry] = manifestOf(tinyPackedKernel(ELEMENTS)).entries;
  assert.ok(entry !== undefined);
  return { ...plain, entries: [...plain.entries, { ...entry, workload: `${KEY}:constant=b` }] };
}

test("weights that stay the same are packed once for the kernel that wants them so", async (t) => {
  const asked = serve(t, manifestOfBoth());
  const kernel = await (await open()).kernel(KEY, { constant: { b: filled(3) } });
  assert.equal(kernel.info.workload, `${KEY}:constant=b`);
  assert.deepEqual([...kernel.run({ a: filled(2) })], filled(5));
  assert.deepEqual([...kernel.run({ a: filled(4) })], filled(7));
  kernel.setConstants({ b: filled(10) });
  assert.deepEqual([...kernel.run()], filled(14));
  assert.deepEqual(Object.keys(kernel.inputs), ["a"]);
  assert.deepEqual(kernel.shapes.b, [ELEMENTS]);
  assert.equal((await kernel.verify()).ok, true);
  assert.equal(asked.filter((path) => path.startsWith("/v1/zoo")).length, 1);
});

test("a page that changes its weights is never served a kernel that wants them packed", async (t) => {
  serve(t, manifestOfBoth());
  const kernel = await (await open()).kernel(KEY);
  assert.equal(kernel.info.workload, KEY);
  assert.equal(kernel.run({ a: filled(2), b: filled(3) })[0], 5);
});

test("weights that stay the same are welcome where the zoo has nothing for them", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const kernel = await (await open()).kernel(KEY, { constant: { b: filled(3) } });
  assert.equal(kernel.info.workload, KEY);
  assert.equal(kernel.run({ a: filled(2) })[0], 5);
});

test("constant inputs have their values before the first run and no others in a run", async (t) => {
  serve(t, { ...manifestOfBoth(), set: "my-model" });
  const kernel = (await (await open()).set("my-model")).get(`${KEY}:constant=b`);
  assert.ok(kernel !== undefined);
  assert.throws(() => kernel.run(), /Input b is constant and has no values.*setConstants/);
  assert.throws(() => kernel.setConstants({ b: [1] }), /1 entries; .* takes 8/);
  assert.throws(() => kernel.setConstants({ a: filled(1) }), /Input a is not constant/);
  kernel.setConstants({ b: filled(3) });
  assert.throws(() => kernel.run({ b: filled(4) }), /Input b is constant. Use setConstants/);
  assert.equal(kernel.run({ a: filled(1) })[0], 4);
});

test("inputs are of the types that the workload says", async (t) => {
  const add = tinyKernel("add", ELEMENTS);
  const [a, b, c] = add.tensors;
  assert.ok(a && b && c);
  const tensors = [a, { ...b, name: "indices", dtype: "i32" as const, limit: 9 }, c];
  const manifest = manifestOf({ ...add, tensors });
  const key = "gather:f32:m8k9n1";
  serve(t, { ...manifest, entries: manifest.entries.map((e) => ({ ...e, workload: key })) });
  const { inputs } = await (await open()).kernel(key);
  const indices: Int32Array = inputs.indices;
  assert.ok(indices instanceof Int32Array && inputs.a instanceof Float32Array);
  assert.equal(indices.length, ELEMENTS);
});
