import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fillSeeded, sampledPositions } from "../src/engine/seeded.js";

interface SeededCase {
  readonly seed: number;
  readonly values: readonly { tensor: number; index: number; value: number }[];
  readonly whole: readonly {
    dtype: "f16" | "i8" | "i32";
    limit: number;
    tensor: number;
    index: number;
    value: number;
  }[];
  readonly output_elements: number;
  readonly positions: readonly number[];
}

const golden = JSON.parse(readFileSync("../tests/golden/seeded.json", "utf8")) as {
  readonly cases: readonly SeededCase[];
};

for (const { seed, values, whole, output_elements, positions } of golden.cases) {
  test(`inputs and positions of seed ${seed} equal the golden ones to the bit`, () => {
    const tensors = new Map<number, Float32Array>();
    for (const { tensor, index, value } of values) {
      const filled = tensors.get(tensor) ?? new Float32Array(4_294_968);
      if (!tensors.has(tensor)) fillSeeded(filled, seed, tensor);
      tensors.set(tensor, filled);
      assert.equal(filled[index], value);
    }
    for (const { dtype, limit, tensor, index, value } of whole) {
      const filled = new { f16: Float32Array, i8: Int8Array, i32: Int32Array }[dtype](index + 1);
      fillSeeded(filled, seed, tensor, { dtype, limit });
      assert.equal(filled[index], value);
    }
    assert.deepEqual(sampledPositions(seed, output_elements), positions);
  });
}
