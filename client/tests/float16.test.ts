import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { stored, storedBytes, suitsFloat16, viewOfStored } from "../src/backend/webgpu/buffers.js";
import { fromFloat16, roundedToFloat16, toFloat16 } from "../src/engine/float16.js";
import type { TensorWire } from "../src/wire/types.js";

const { halves: golden } = JSON.parse(readFileSync("../tests/golden/seeded.json", "utf8")) as {
  readonly halves: { readonly values: string; readonly rounded: string };
};

const digest = (values: Float32Array | Uint16Array): string =>
  createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");

const values = fromFloat16(Uint16Array.from({ length: 1 << 16 }, (_, bits) => bits));

/** The float32 next to `value`, which is not 0, away from 0 or towards it. */
function neighbour(value: number, away: boolean): number {
  const float = Float32Array.of(value);
  const bits = new Int32Array(float.buffer);
  bits[0] = (bits[0] as number) + (away ? 1 : -1);
  return float[0] as number;
}

const below = (value: number): number => neighbour(value, value < 0);
const above = (value: number): number => neighbour(value, value > 0);

test("all patterns of a float16 mean what they mean to NumPy", () => {
  assert.equal(digest(values), golden.values);
});

test("what lies between two float16, or next to their middle, is rounded as NumPy does", () => {
  const finite = [...new Set([...values].filter(Number.isFinite).map((value) => value + 0))];
  finite.sort((one, other) => one - other);
  const middles = finite.slice(1).map((value, i) => (value + (finite[i] as number)) / 2);
  middles.push(65_520, -65_520);
  const around = [...middles.map(below), ...middles, ...middles.map(above)];
  assert.equal(digest(toFloat16(Float32Array.from(around))), golden.rounded);
});

test("zeros keep their sign, what overflows is infinite, NaN is none", () => {
  assert.deepEqual(
    [...toFloat16(Float32Array.of(0, -0, 1e30, -1e30))],
    [0, 0x8000, 0x7c00, 0xfc00],
  );
  assert.ok(Number.isNaN(roundedToFloat16(Number.NaN)));
});

test("a tensor of f16 is written from float32 or float16 and read as float32", () => {
  const tensor: TensorWire = { name: "a", role: "input", dtype: "f16", shape: [3], limit: 0 };
  const bits = Uint16Array.of(0x3c00, 0xc000, 0x3555);
  assert.equal(storedBytes(tensor), 6);
  assert.deepEqual(stored(tensor, Float32Array.of(1, -2, 1 / 3)), bits);
  assert.equal(stored(tensor, bits), bits);
  assert.deepEqual(viewOfStored(tensor, bits.buffer), Float32Array.of(1, -2, 0.333251953125));
  const whole: TensorWire = { ...tensor, dtype: "f32" };
  assert.deepEqual([suitsFloat16(tensor, bits), suitsFloat16(whole, bits)], [true, false]);
  assert.equal(storedBytes(whole), 12);
});
