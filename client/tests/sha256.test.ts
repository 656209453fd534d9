import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { sha256Hex } from "../src/engine/bytes.js";

test("digests equal those of Node at every length around the block size", () => {
  for (let length = 0; length <= 200; length++) {
    const message = Uint8Array.from({ length }, (_, i) => i * 31 + length);
    assert.equal(sha256Hex(message), createHash("sha256").update(message).digest("hex"));
  }
});
