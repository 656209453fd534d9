/** Blocks of prompts in parts that a weak GPU takes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { callsAtOnce } from "../src/language/webgpu/decoder.js";

test("a block is one submission unless it would take a weak GPU too long", () => {
  assert.equal(callsAtOnce(8, 2, 200), 200);
  assert.equal(callsAtOnce(8, 12, 200), 200, "300 ms in all");
  assert.equal(callsAtOnce(8, 80, 200), 15, "150 ms each");
  assert.equal(callsAtOnce(8, 8000, 200), 1, "a call is the least");
});
