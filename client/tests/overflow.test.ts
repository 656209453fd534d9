import assert from "node:assert/strict";
import { test } from "node:test";
import type { BesideCall, GpuExecutor } from "../src/backend/webgpu/executor.js";
import type { GoldenFile } from "../src/executor/golden-file.js";
import { RunsFirst } from "../src/executor/run-priority.js";
import { OverflowAudit } from "../src/tuning/webgpu/overflow-audit.js";

Object.assign(globalThis, {
  GPUBufferUsage: { MAP_READ: 1, COPY_DST: 8 },
  GPUMapMode: { READ: 1 },
});

const INFINITE = 0x7c00;
const GOLDEN = [new Float32Array([1])];
const LARGE = [new Float32Array([9])];

/** An executor of calls whose outputs are infinite as `infinite` says; the last one writes f32. */
function engineOf(calls: number, infinite: (call: number, x: number) => boolean) {
  const tensors = Array.from({ length: calls }, (_, i) => {
    return { dtype: i < calls - 1 ? "f16" : "f32", shape: [4] };
  });
  const plan = { tensors, calls: tensors.map((_, i) => ({ tensors: [i] })) };
  const createBuffer = ({ size }: { size: number }) => {
    const bytes = new ArrayBuffer(size);
    return { bytes, mapAsync: async () => undefined, getMappedRange: () => bytes, destroy() {} };
  };
  const run = async ([x]: readonly Float32Array[], beside: BesideCall): Promise<void> => {
    const to = beside.copies[0]?.to as unknown as { readonly bytes: ArrayBuffer };
    new Uint16Array(to.bytes)[1] = infinite(beside.call, x?.[0] as number) ? INFINITE : 0;
  };
  const executor = {
    order: { answer: { plan } },
    buffers: {
      placement: { calls: tensors.map((_, i) => [{ kind: "shared", index: i }]) },
      of() {},
    },
    open: {
      device: { createBuffer },
      loss: null,
      scoped: async (made: () => unknown) => made(),
      settled: (wait: Promise<void>) => wait,
    },
    run: (...[feeds, , , , beside]: Parameters<GpuExecutor["run"]>) =>
      run(feeds as readonly Float32Array[], beside as BesideCall),
  };
  return { executor: executor as unknown as GpuExecutor, run };
}

test("calls are looked at that write numbers for the golden inputs, one in so many runs", async () => {
  const { executor, run } = engineOf(4, (call, x) => call === 1 || (call === 2 && x > 1));
  const golden = { inputs: async () => GOLDEN } as unknown as GoldenFile;
  const audit = new OverflowAudit(executor, golden, new RunsFirst(async () => undefined));
  const found: (readonly [run: number, call: number, infinite: boolean])[] = [];
  for (let i = 1; i <= 400; i++) {
    const written = await audit.next(LARGE);
    if (written === null) {
      // What is learnt of a call is known in the next run.
      await new Promise((resolve) => setImmediate(resolve));
      continue;
    }
    await run(LARGE, written.beside);
    found.push([i, written.beside.call, await written.areInfinite()]);
    written.dispose();
  }
  assert.deepEqual(
    found.map(([, call, infinite]) => [call, infinite]),
    [
      [0, false],
      [2, true],
      [0, false],
      [2, true],
      [0, false],
    ],
    "call 1 writes an infinity whatever it is given, and the last one no f16",
  );
  assert.ok(found.every(([at]) => at % 50 === 0));
  const infinite = await audit.next([new Float32Array([Number.POSITIVE_INFINITY])]);
  assert.equal(infinite, null);
});
