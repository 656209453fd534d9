import assert from "node:assert/strict";
import { test } from "node:test";
import { readyOf } from "../src/backend/wasm/dispatch.js";
import type { Main } from "../src/backend/wasm/program.js";
import { warmUp } from "../src/backend/wasm/warm-up.js";
import { checksum } from "../src/weights/checksum.js";
import { checksumIn } from "../src/weights/vector-checksum.js";

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

test("checksums in a memory are those of JavaScript, of all lengths and of other memory", () => {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  const bytes = new Uint8Array(memory.buffer);
  bytes.set(Uint8Array.from(bytes, (_, i) => (i * 197) % 251));
  const sum = checksumIn(memory);
  assert.notEqual(sum, checksum);
  for (const from of [0, 4, 64]) {
    for (const length of [0, 4, 8, 12, 16, 20, 44, 64, 1036, 65_536 - from]) {
      const piece = bytes.subarray(from, from + length);
      assert.equal(sum(piece), checksum(piece));
      assert.equal(sum(piece.slice()), checksum(piece));
    }
  }
});

test("kernels are warmed up by calls of nothing, with their scratch, the fewer the longer they are", () => {
  const words = new Map<string, Set<string>>();
  const counts = new Map<string, number>();
  const told = (name: string, ms: number): Main => {
    const heard = new Set<string>();
    words.set(name, heard);
    return (...given) => {
      for (const endMs = performance.now() + ms; performance.now() < endMs; );
      heard.add(given.join());
      counts.set(name, (counts.get(name) ?? 0) + 1);
    };
  };
  const mains = new Map([
    ["long", told("long", 0)],
    ["slow", told("slow", 0.2)],
    ["trapping", () => assert.fail("unreachable")],
  ]);
  const call = (artifact: string, hasScratch: boolean) => {
    const task = { artifact, extent: 8, words: [64, 128], hasScratch, weights: 0 };
    return readyOf(task, mains, 192);
  };
  const used = ["trapping", "long", "slow", "long"];
  const calls = used.map((name) => call(name, name === "slow"));
  const kernels = [...mains.keys()].map((sha256) => ({ sha256, size_bytes: 90_000 }));
  warmUp(calls, kernels);
  assert.deepEqual([...(words.get("long") ?? [])], ["64,128,0,0"]);
  assert.equal(counts.get("long"), 100);
  assert.deepEqual([...(words.get("slow") ?? [])], ["64,128,192,0,0"]);
  assert.equal(counts.get("slow"), 64);
});
