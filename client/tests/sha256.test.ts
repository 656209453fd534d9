import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { digestOf, Sha256, sha256Hex } from "../src/engine/sha256.js";

test("digests equal those of Node at every length around the block size", async (t) => {
  const messages = Array.from({ length: 201 }, (_, length) =>
    Uint8Array.from({ length }, (_, i) => i * 31 + length),
  );
  const right = messages.map((message) => createHash("sha256").update(message).digest("hex"));
  assert.deepEqual(messages.map(sha256Hex), right);
  assert.deepEqual(await Promise.all(messages.map(digestOf)), right);
  t.mock.getter(globalThis, "crypto", () => ({}));
  assert.deepEqual(await Promise.all(messages.map(digestOf)), right, "on plain http");
});

test("a message in pieces of whole blocks has the same digest", () => {
  const message = Uint8Array.from({ length: 1_000 }, (_, i) => 7 * i);
  for (const step of [64, 320]) {
    for (const length of [0, 63, 64, 640, 1_000]) {
      const digest = new Sha256();
      let at = 0;
      for (; at + step < length; at += step) digest.add(message.subarray(at, at + step));
      const found = digest.hex(message.subarray(at, length));
      assert.equal(found, sha256Hex(message.subarray(0, length)), `${length} by ${step}`);
    }
  }
});
