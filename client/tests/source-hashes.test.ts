/** A page hashes a file of ONNX as an import does. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { sourceHashes } from "../src/ort/source-hashes.js";

interface Recorded {
  readonly file: string;
  /** Null where the file is refused. */
  readonly graph: string | null;
  readonly weights: string | null;
}

const recorded = JSON.parse(readFileSync("../tests/golden/source_hashes.json", "utf8")) as Record<
  string,
  Recorded
>;

const nothing = async (location: string): Promise<never> => {
  throw new Error(`${location} is missing`);
};

for (const [name, { file, graph, weights }] of Object.entries(recorded)) {
  test(`the file "${name}" has the hashes that an import gives it`, async () => {
    const bytes = new Uint8Array(Buffer.from(file, "base64"));
    if (graph === null) {
      await assert.rejects(sourceHashes(bytes), /was cut off/);
      return;
    }
    const hashes = await sourceHashes(bytes);
    assert.equal(hashes.graph, graph);
    assert.equal(await hashes.weights(nothing), weights);
    const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
    shared.set(bytes);
    assert.equal((await sourceHashes(shared)).graph, graph);
  });
}
