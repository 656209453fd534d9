import assert from "node:assert/strict";
import { test } from "node:test";
import { place } from "../src/backend/wasm/memory.js";
import { planCopy, runnerOf } from "../src/backend/wasm/plan-copy.js";
import { untimed } from "../src/executor/executor.js";
import type { Stored } from "../src/executor/golden-tensors.js";
import type { Ran } from "../src/executor/worker-client.js";
import { PageRuns } from "../src/model/page-runs.js";
import { LOOKED_AT, ShortRuns } from "../src/model/short-runs.js";
import { bytesOf, tinyKernel, tinyPlan } from "./kernels.js";

const ELEMENTS = 4;

const PLAN = tinyPlan(ELEMENTS, ["add"]);

const X = Float32Array.of(1, 2, 3, 4);

/** A plan whose runs take `ms` of a clock that they alone move; the worker's answers are empty. */
function shortPlan(ms: (run: number) => number) {
  const done = { here: 0, inWorker: 0, ms: 0, turn: (): void => undefined };
  const worker = {
    async run(feeds: readonly Stored[]): Promise<Ran> {
      done.inWorker += 1;
      return { feeds, outputs: [], times: untimed() };
    },
  };
  const run = (feeds: readonly Stored[]): readonly Stored[] => {
    done.ms += ms(++done.here);
    return feeds;
  };
  const breathe = () => new Promise<void>((resolve) => (done.turn = resolve));
  return { done, runs: new PageRuns(worker, run, { clock: () => done.ms, breathe }) };
}

test("a copy of a plan computes what the plan does, run after run, in memory of its own", () => {
  const kernel = tinyKernel("add", ELEMENTS);
  const placement = place(PLAN, () => kernel, 1, true);
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  const [weight] = placement.weights;
  new Float32Array(memory.buffer, weight?.[0]?.address, ELEMENTS).set([10, 20, 30, 40]);
  const module = new WebAssembly.Module(bytesOf("add"));
  const linked = { module, functions: { [kernel.sha256]: "main" } };
  const run = runnerOf(PLAN, structuredClone(planCopy([linked], memory, placement)));
  new Uint8Array(memory.buffer).fill(0);
  const [first] = run([X]);
  assert.deepEqual(first, Float32Array.of(21, 42, 63, 84));
  assert.deepEqual(run([first as Stored]), [Float32Array.of(41, 82, 123, 164)]);
  assert.deepEqual(first, Float32Array.of(21, 42, 63, 84), "an output is the page's own");
});

test("runs on the page's thread let the page have its turn after four milliseconds", async () => {
  const { done, runs } = shortPlan(() => 0.125);
  for (let run = 0; run < 32; run++) await runs.run([X]);
  assert.equal(done.here, 32);
  const [next, another] = [runs.run([X]), runs.run([X])];
  await new Promise(setImmediate);
  assert.equal(done.here, 32, "they wait for the turn");
  done.turn();
  assert.deepEqual((await next).outputs, [X]);
  await another;
  assert.deepEqual([done.here, done.inWorker], [34, 0]);
});

test("a plan that is slow on the page's thread goes back to the worker, one that is disturbed stays", async () => {
  for (const [slow, wanted] of [
    [LOOKED_AT, [LOOKED_AT, 1]],
    [4, [LOOKED_AT + 1, 0]],
  ] as const) {
    const { done, runs } = shortPlan((run) => (run <= slow ? 0.21 : 0.01));
    for (let run = 0; run <= LOOKED_AT; run++) await runs.run([X]);
    assert.deepEqual([done.here, done.inWorker], wanted);
  }
});

test("a kernel that traps on the page's thread is left to the worker, which tells of it", async () => {
  const { done, runs } = shortPlan((run) => {
    if (run === 2) throw new WebAssembly.RuntimeError("unreachable");
    return 0.01;
  });
  for (let run = 0; run < 4; run++) await runs.run([X]);
  assert.deepEqual([done.here, done.inWorker], [2, 3]);
});

test("runs that wait for the page's turn when their model is disposed of are the worker's to reject", async () => {
  const { done, runs } = shortPlan(() => 4);
  await runs.run([X]);
  const waiting = [runs.run([X]), runs.run([X])];
  runs.end();
  done.turn();
  await Promise.all(waiting);
  assert.deepEqual([done.here, done.inWorker], [1, 2]);
});

test("a run that was stopped does not begin, and one whose calls are timed is the worker's", async () => {
  const { done, runs } = shortPlan(() => 0.01);
  const reason = new Error("enough");
  await assert.rejects(runs.run([X], { signal: AbortSignal.abort(reason) }), reason);
  await runs.run([X], { timed: true });
  assert.deepEqual([done.here, done.inWorker], [0, 1]);
});

test("a plan is short once sixteen runs took less than 0.2 ms on average, whatever the clock's steps", () => {
  const found = (ms: (run: number) => number) => {
    const short = new ShortRuns();
    const said = Array.from({ length: LOOKED_AT }, (_, run) => short.areShort(ms(run)));
    assert.deepEqual(new Set(said.slice(0, -1)), new Set([undefined]));
    return said.at(-1);
  };
  assert.ok(found(() => 0.1));
  assert.equal(
    found(() => 0.25),
    false,
  );
  assert.ok(
    found((run) => (run % 4 === 0 ? 20 : 0.1)),
    "another process had its turn in some",
  );
  const steps = (ms: number) => (run: number) => Math.floor((run + 1) * ms) - Math.floor(run * ms);
  assert.ok(found(steps(0.15)), "steps of a millisecond");
  assert.equal(found(steps(0.6)), false);
  assert.equal(
    found(() => Number.NaN),
    false,
    "runs that tell no time",
  );
});
