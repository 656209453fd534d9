import assert from "node:assert/strict";
import { test } from "node:test";
import type { Stored } from "../src/executor/golden-tensors.js";
import { takeOutput, writeFeed } from "../src/executor/open-places.js";
import type { Feeds } from "../src/model/feeds.js";
import type { Model } from "../src/model/model.js";
import type { Opener } from "../src/model/opener.js";
import { serveRanges } from "../src/model/ranges.js";
import type { PlanWire, PortWire } from "../src/wire/model-answer.js";

const port = { dtype: "float32", tensor: 0 } as const;
const told = { dtype: "int32", tensor: 0, shape: [1] } as const;

/** Two halves of up to n rows, and as many entries as both dimensions have together. */
const PLAN = {
  inputs: [
    { ...port, name: "x", shape: [2, 4, 2], open: { place: 1, axis: 0, step: 1 } },
    { ...port, name: "y", shape: [3], open: { place: 0, axis: 1, step: 1 } },
    {
      ...port,
      name: "all",
      shape: [7],
      open: { place: 0, axis: 0, step: 1 },
      also_open: [{ place: 0, axis: 1, step: 1 }],
    },
    { ...told, name: "spare n" },
    { ...told, name: "spare m" },
    { ...told, name: "spare n+m" },
  ],
  outputs: [{ ...port, name: "z", shape: [2, 4, 2], open: { place: 1, axis: 0, step: 1 } }],
  axes: [
    { name: "n", least: 0, most: 4, input: 3 },
    { name: "m", least: 1, most: 3, input: 4 },
  ],
  sums: [{ factors: [1, 1], input: 5 }],
} as unknown as PlanWire;

/** A model of the plan that answers x, with what each of its runs was fed. */
function served() {
  const fed: Feeds[] = [];
  const model = {
    inputs: PLAN.inputs,
    async run(feeds: Feeds) {
      fed.push(feeds);
      return { z: (feeds.x as unknown as { data: Float32Array }).data };
    },
  } as unknown as Model;
  serveRanges(model, { answer: { plan: PLAN } } as unknown as Opener);
  return { model, fed };
}

const feed = (...shape: number[]) => ({
  data: Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => i + 1),
  shape,
});

test("what is there of an axis behind another are the first rows of each entry of that", async () => {
  const { model, fed } = served();
  const { z } = await model.run({ x: feed(2, 1, 2), y: feed(2), all: feed(3) });
  const [whole] = fed as unknown as [{ x: { data: Float32Array } }];
  const { data, ...how } = whole.x;
  assert.deepEqual([...data, how], [1, 2, 3, 4, { shape: [2, 1, 2], isFirst: true }]);
  const [port] = PLAN.inputs as [PortWire];
  const memory = new Float32Array(16).fill(9) as Stored;
  writeFeed(port, data as Stored, memory, [3, 1]);
  assert.deepEqual([...memory], [1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual([...takeOutput(port, memory, [3, 1])], [1, 2, 3, 4]);
  assert.deepEqual([...takeOutput(port, memory, [4, 1])], []);
  writeFeed(port, new Float32Array() as Stored, memory, [4, 1]);
  assert.deepEqual([...memory], new Array(16).fill(0));
  const names = ["spare n", "spare m", "spare n+m"];
  assert.deepEqual(
    names.map((name) => fed[0]?.[name]),
    [[3], [1], [4]],
  );
  assert.deepEqual([...(z as Float32Array)], [1, 2, 3, 4]);
  assert.deepEqual(z?.shape, [2, 1, 2]);
  const empty = await model.run({ x: feed(2, 0, 2), y: feed(1), all: feed(1) });
  assert.deepEqual([empty.z?.length, empty.z?.shape], [0, [2, 0, 2]]);
});

test("a feed of more than the largest extents is refused in a sentence, whatever array it is", async () => {
  const { model, fed } = served();
  const right = { x: feed(2, 4, 2), y: feed(3), all: feed(7) };
  const takes = "where n is from 0 to 4, not";
  for (const [feeds, pattern] of [
    [{ x: feed(2, 5, 2) }, `Input x takes 2×n×2, ${takes} 2×5×2`],
    [{ x: feed(2, 5, 2).data }, `Input x takes 2×n×2, ${takes} 20 entries`],
    [{ x: { data: new Float32Array(8), shape: [2, -2, -2] } }, `takes 2×n×2, ${takes} 2×-2×-2`],
    [{ x: { data: new Float32Array(2), shape: [2, 0.5, 2] } }, `takes 2×n×2, ${takes} 2×0.5×2`],
    [{ all: feed(8) }, "Input all takes n\\+m, where n is from 0 to 4 and m is from 1 to 3, not 8"],
    [{ y: new Float32Array(0) }, "Input y takes m, where m is from 1 to 3, not 0 entries"],
  ] as const) {
    const refused = { name: "KernelZooError", stage: "run", message: new RegExp(pattern) };
    await assert.rejects(model.run({ ...right, ...feeds } as never), refused);
  }
  assert.equal(fed.length, 0);
});
