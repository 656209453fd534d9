import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { comparisonTolerance, fillSeeded, sampledPositions } from "../src/engine/seeded.js";

interface Case {
  readonly seed: number;
  readonly values: readonly { tensor: number; index: number; value: number }[];
  readonly output_elements: number;
  readonly positions: readonly number[];
}

const golden = JSON.parse(readFileSync("../tests/golden/seeded.json", "utf8")) as {
  readonly cases: readonly Case[];
};

for (const { seed, values, output_elements, positions } of golden.cases) {
  test(`inputs and positions of seed ${seed} equal the golden ones to the bit`, () => {
    const tensors = new Map<number, Float32Array>();
    for (const { tensor, index, value } of values) {
      const filled = tensors.get(tensor) ?? new Float32Array(4_294_968);
      if (!tensors.has(tensor)) fillSeeded(filled, seed, tensor);
      tensors.set(tensor, filled);
      assert.equal(filled[index], value);
    }
    assert.deepEqual(sampledPositions(seed, output_elements), positions);
  });
}

test("the tolerance grows with the length of the sum, as the gateway's does", () => {
  // comparison_tolerance(matmul:f32:m384k768n768) of kernelzoo/domain/seeded.py
  assert.equal(comparisonTolerance(768), 0.006305618864565563);
});
