/** The proof of work that an agent shows, as the gateway checks it. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { solved } from "../src/agent/session.js";

test("each of sixteen numbers has a hash that begins with the zeros that were asked for", async () => {
  const challenge = "12.1790000000.0123456789abcdef";
  const answer = await solved(challenge, async () => undefined);
  const [told, ...numbers] = answer.split(",");
  assert.equal(told, challenge);
  assert.equal(numbers.length, 16);
  for (const [piece, number] of numbers.entries()) {
    const hash = createHash("sha256").update(`${challenge}:${piece}:${number}`).digest();
    assert.ok(hash.readUInt32BE(0) < 2 ** (32 - 8), `${piece}: ${hash.toString("hex")}`);
  }
});
