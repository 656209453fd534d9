import assert from "node:assert/strict";
import { test } from "node:test";
import { checksum } from "../src/runtime/checksum.js";
import type { Task } from "../src/runtime/placement.js";
import { warming } from "../src/runtime/warming.js";
import { bytesOf } from "./kernels.js";

test("a checksum tells each changed bit, a lost end and exchanged words, in shared memory as elsewhere", () => {
  const bytes = Uint8Array.from({ length: 1036 }, (_, i) => (i * 197) % 251);
  const right = checksum(bytes);
  const shared = new Uint8Array(new SharedArrayBuffer(2048), 64, bytes.length);
  shared.set(bytes);
  assert.equal(checksum(shared), right);
  const found = new Set([right, checksum(bytes.subarray(0, 1020)), checksum(bytes.subarray(16))]);
  for (let bit = 0; bit < 8 * bytes.length; bit++) {
    bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
    found.add(checksum(bytes));
    bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
  }
  assert.equal(found.size, 3 + 8 * bytes.length);
  const words = new Uint32Array(bytes.buffer);
  [words[3], words[7]] = [words[7] as number, words[3] as number];
  assert.notEqual(checksum(bytes), right);
});

test("each kernel is run beside once, in a memory of its own", async () => {
  const module = await WebAssembly.compile(bytesOf("add"));
  const task = (artifact: string): Task => {
    return { artifact, extent: 8, words: [64, 128, 192], hasScratch: false, weights: 0 };
  };
  const linked = [{ module, functions: { a: "main", b: "main" } }];
  const tasks = ["a", "b", "a"].map(task);
  const warm = warming(linked, { tasks, scratch: 0, totalBytes: 256 });
  assert.deepEqual([warm(), warm(), warm(), warm()], [true, true, false, false]);
});
