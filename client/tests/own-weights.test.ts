/** A page puts a file of weights together from the file of a model, as an import made the map. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { weightsByMap } from "../src/ort/own-weights.js";

interface Recorded {
  readonly model: string;
  readonly map: string;
  readonly bytes: number;
  readonly sha256: string;
}

const recorded = JSON.parse(readFileSync("../tests/golden/original_map.json", "utf8")) as Readonly<
  Record<"f32" | "bytes", Recorded>
>;
const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "base64"));
const nothing = async (location: string): Promise<never> => {
  throw new Error(`${location} is missing`);
};

async function digestOf(weights: Blob): Promise<string> {
  const bytes = new Uint8Array(await weights.arrayBuffer());
  return createHash("sha256").update(bytes).digest("hex");
}

for (const [name, { model, map, bytes, sha256 }] of Object.entries(recorded)) {
  test(`the weights of a file of ${name} are those of the import`, async () => {
    const weights = await weightsByMap(bytesOf(map), bytes, bytesOf(model), nothing);
    assert.equal(weights.size, bytes);
    assert.equal(await digestOf(weights), sha256);
  });
}

const { bytes, sha256, ...f32 } = recorded.f32;
const [model, map] = [bytesOf(f32.model), bytesOf(f32.map)];

test("weights in a file beside the model are taken from there", async () => {
  const text = Buffer.from(map).toString("latin1");
  const moved = Buffer.from(text.replace('"locations":[""]', '"locations":["b"]'), "latin1");
  await assert.rejects(weightsByMap(moved, bytes, model, nothing), /b is missing/);
  const weights = await weightsByMap(moved, bytes, new Uint8Array(), async () => model);
  assert.equal(await digestOf(weights), sha256);
});

test("a map of another file is refused", async () => {
  const short = model.subarray(0, model.length / 2);
  await assert.rejects(weightsByMap(map, bytes, short, nothing), RangeError);
  await assert.rejects(weightsByMap(map.subarray(0, 40), bytes, model, nothing));
});
