import assert from "node:assert/strict";
import { test } from "node:test";
import { OverlappingRuns } from "../src/backend/webgpu/overlapping-runs.js";
import { type GpuOutput, Staging } from "../src/backend/webgpu/staging.js";
import { submissionAfter, submissionsOf } from "../src/backend/webgpu/submissions.js";

Object.assign(globalThis, {
  GPUBufferUsage: { MAP_READ: 1, COPY_DST: 8 },
  GPUMapMode: { READ: 1 },
});

/** A device whose buffers are bytes, and what it was asked for, in order. */
function device() {
  const asked: string[] = [];
  let made = 0;
  const createBuffer = ({ size }: { size: number }) => {
    const bytes = new ArrayBuffer(size);
    const name = made++;
    const mapAsync = async (): Promise<void> => void asked.push(`map ${name}`);
    const unmap = (): void => void asked.push(`unmap ${name}`);
    return { size, bytes, getMappedRange: () => bytes, mapAsync, unmap };
  };
  const queue = { submit: (): void => void asked.push("submit") };
  return { asked, gpu: { createBuffer, queue } as unknown as GPUDevice };
}

/** Outputs of so many entries, whose entries count on from 1, and a copy of them to staging. */
function counting(...counts: readonly number[]) {
  let last = 0;
  const sources = counts.map((entries) => {
    const bytes = new ArrayBuffer(16 * Math.ceil(entries / 4));
    for (const [i] of new Float32Array(bytes).subarray(0, entries).entries()) {
      new Float32Array(bytes)[i] = ++last;
    }
    return { bytes, entries };
  });
  const outputs = sources.map(({ bytes, entries }): GpuOutput => {
    const from = { bytes } as unknown as GPUBuffer;
    return { part: 0, from, bytes: bytes.byteLength, dtype: "f32", entries };
  });
  const run = ({ copies }: Staging): void => {
    for (const { from, at, to, offset, bytes } of copies) {
      const [source, target] = [from, to].map((each) => (each as unknown as Backed).bytes);
      new Uint8Array(target as ArrayBuffer, offset, bytes).set(
        new Uint8Array(source as ArrayBuffer, at, bytes),
      );
    }
  };
  return { outputs, run };
}

interface Backed {
  readonly bytes: ArrayBuffer;
}

const settled = (mapped: Promise<void>): Promise<void> => mapped;

test("outputs are put together from buffers that end anywhere in them", async () => {
  const { outputs, run } = counting(5, 1, 13);
  const whole = [[1, 2, 3, 4, 5], [6], Array.from({ length: 13 }, (_, i) => i + 7)];
  for (const pieceBytes of [16, 32, 48, 1024]) {
    const { gpu } = device();
    const staging = new Staging(gpu, outputs, pieceBytes);
    run(staging);
    const found = await staging.read([], settled);
    assert.deepEqual(
      found.map((each) => [...each]),
      whole,
      `pieces of ${pieceBytes} bytes`,
    );
  }
});

test("the next buffers are asked for before one is read", async () => {
  const { gpu, asked } = device();
  const { outputs, run } = counting(16);
  const staging = new Staging(gpu, outputs, 16);
  run(staging);
  await staging.read([], settled);
  assert.deepEqual(asked, [
    ...["map 0", "map 1"],
    ...["map 2", "submit", "unmap 0"],
    ...["map 3", "submit", "unmap 1"],
    ...["unmap 2", "unmap 3"],
  ]);
});

test("outputs take the memory of arrays that suit, and fresh memory in place of others", async () => {
  const { gpu } = device();
  const { outputs, run } = counting(5, 3);
  const staging = new Staging(gpu, outputs);
  run(staging);
  const given = [new Float32Array(5).fill(9), new Float32Array(4).fill(9)];
  const [first, second] = await staging.read(given, settled);
  assert.equal(first, given[0]);
  assert.deepEqual([...(first ?? [])], [1, 2, 3, 4, 5]);
  assert.deepEqual([...(second ?? [])], [6, 7, 8]);
  assert.notEqual(second, given[1]);
});

test("an output of an earlier submission is read while the GPU computes the others", async () => {
  const { gpu, asked } = device();
  const { outputs, run } = counting(4, 8, 2);
  const [late, early, last] = outputs as [GpuOutput, GpuOutput, GpuOutput];
  const staging = new Staging(gpu, [
    { ...late, part: 3 },
    { ...early, part: 1 },
    { ...last, part: 3 },
  ]);
  run(staging);
  assert.deepEqual(
    staging.copies.map(({ output, part, offset }) => [output, part, offset]),
    [
      [1, 1, 0],
      [0, 3, 0],
      [2, 3, 16],
    ],
  );
  let submissions = 0;
  const found = await staging.read([], async () => {
    submissions += 1;
    if (submissions === 2) assert.ok(asked.includes("unmap 0"));
  });
  assert.equal(submissions, 2);
  assert.deepEqual(
    found.map((each) => [...each]),
    [
      [1, 2, 3, 4],
      [5, 6, 7, 8, 9, 10, 11, 12],
      [13, 14],
    ],
  );
});

test("an output is copied after the first submission that ends with its call or later", () => {
  const calls = 70;
  assert.deepEqual(submissionsOf(calls), [0, 10, 30, 50, 70]);
  const after = [1, 10, 11, 50, 51, 70].map((ready) => submissionAfter(ready, calls));
  assert.deepEqual(after, [0, 0, 1, 2, 3, 3]);
  assert.equal(submissionAfter(3, 12), 0);
  assert.equal(submissionAfter(0, calls), 0, "an input is copied, too");
});

test("as many runs overlap as there is staging, and they are submitted in their order", async () => {
  const runs = new OverlappingRuns(["first", "second"]);
  const heard: string[] = [];
  const ends: (() => void)[] = [];
  const run = (name: string, aborted = false) =>
    runs.run(
      async (staging) => {
        heard.push(`${name} in ${staging}`);
        return !aborted;
      },
      async () => {
        await new Promise<void>((resolve) => ends.push(resolve));
        return name;
      },
    );
  const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));
  const results = [run("a"), run("b"), run("c", true), run("d")];
  await settled();
  assert.deepEqual(heard, ["a in second", "b in first"]);
  ends.shift()?.();
  await settled();
  assert.deepEqual(heard.slice(2), ["c in second", "d in second"], "c was aborted");
  for (const end of ends) end();
  assert.deepEqual(await Promise.all(results), ["a", "b", null, "d"]);
});

test("a run that fails gives its staging back, and the next one is submitted", async () => {
  const runs = new OverlappingRuns([1]);
  const lost = runs.run(
    async () => Promise.reject(new Error("the device was lost")),
    async () => 1,
  );
  await assert.rejects(lost, /lost/);
  assert.equal(
    await runs.run(
      async () => true,
      async (staging) => staging,
    ),
    1,
  );
});
