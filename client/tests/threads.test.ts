import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Worker } from "node:worker_threads";
import { Arena } from "../src/engine/arena.js";
import { addresses } from "../src/engine/instance.js";
import { planMemory } from "../src/engine/tensors.js";
import {
  CONTROL_WORDS,
  chunking,
  finishChunk,
  openRun,
  rangeOf,
  takeChunk,
} from "../src/threads/chunks.js";
import { type Thread, ThreadPool } from "../src/threads/pool.js";
import { planThreads, Threads } from "../src/threads/threads.js";
import { bytesOf, type Tiny, tinyKernel } from "./kernels.js";

const control = (): Int32Array =>
  new Int32Array(new SharedArrayBuffer(CONTROL_WORDS * Int32Array.BYTES_PER_ELEMENT));

/** The scope of a browser's worker, in one of Node's. */
const PRELUDE = `
  const { parentPort } = require("node:worker_threads");
  globalThis.postMessage = (message) => parentPort.postMessage(message);
  globalThis.addEventListener = (_, heard) => parentPort.on("message", (data) => heard({ data }));
`;

const spawned: Thread[] = [];
after(() => {
  for (const thread of spawned) thread.terminate();
});

function spawn(text: string): Thread {
  const worker = new Worker(PRELUDE + text, { eval: true });
  const thread: Thread = {
    onmessage: null,
    onerror: null,
    postMessage: (message) => worker.postMessage(message),
    terminate: () => void worker.terminate(),
  };
  worker.on("message", (data) => thread.onmessage?.({ data } as MessageEvent));
  worker.on("error", ({ message }) => thread.onerror?.({ message } as ErrorEvent));
  spawned.push(thread);
  return thread;
}

/** A tiny kernel bound to the threads of `pool`, its tensors filled with `value`. */
function bound(pool: ThreadPool, arena: Arena, name: Tiny, elements: number, value: number) {
  const kernel = tinyKernel(name, elements);
  const plan = planMemory(kernel);
  const { start } = arena.allocate(plan.totalBytes);
  const [a, b, c] = plan.regions.map(
    ({ offset }) => new Float32Array(arena.memory.buffer, start + offset, elements),
  );
  assert.ok(a && b && c);
  for (const [i, view] of [a, b].entries()) view.fill(value + i);
  const module = new WebAssembly.Module(bytesOf(name));
  const wordsOf = () => addresses(kernel, plan, start);
  return { output: c, threaded: pool.bind({ module, extent: elements, wordsOf }) };
}

test("chunks cover every range once, in at least eight for each thread where it has as many", () => {
  for (const threads of [1, 2, 3, 8, 64]) {
    for (const extent of [0, 1, 7, 16, 31, 96, 1000, 100_003]) {
      const chunks = chunking(extent, threads);
      const ranges = Array.from({ length: chunks.count }, (_, i) => rangeOf(chunks, i));
      const covered = ranges.reduce((at, [lo, hi]) => (lo === at && hi > lo ? hi : -1), 0);
      assert.equal(covered, extent, `${extent} on ${threads}`);
      assert.ok(chunks.count >= Math.min(extent, 8 * threads, 500));
      assert.ok(chunks.count < 1023, "the last chunk number means closed");
    }
  }
});

test("each chunk of a run is taken once, and the last to finish knows it", () => {
  const words = control();
  openRun(words, 5);
  const countOf = (kernel: number): number => (kernel === 5 ? 3 : 0);
  const taken = [0, 1, 2, 3].map(() => takeChunk(words, countOf)?.chunk);
  assert.deepEqual(taken, [0, 1, 2, undefined]);
  assert.deepEqual(
    [0, 1, 2].map(() => finishChunk(words, 3)),
    [false, false, true],
  );
});

test("each thread takes a stretch of neighbouring chunks, and then those that others have left", () => {
  const words = control();
  openRun(words, 5, 3);
  const take = (thread: number) => takeChunk(words, () => 8, thread, 3)?.chunk;
  assert.deepEqual([take(0), take(1), take(2), take(1)], [0, 2, 5, 3]);
  assert.deepEqual([take(1), take(1), take(1)], [4, 6, 7], "it helps the next one");
  assert.deepEqual([take(2), take(2), take(0)], [1, undefined, undefined]);
});

test("a thread that knows no kernel of the run takes nothing of it", () => {
  const words = control();
  openRun(words, 5);
  assert.equal(
    takeChunk(words, () => 0),
    undefined,
  );
  assert.deepEqual(
    takeChunk(words, () => 1),
    { kernel: 5, chunk: 0 },
  );
});

test("a thread that wakes between two runs takes no chunk of either by mistake", () => {
  const words = control();
  openRun(words, 1);
  const counts = new Map([
    [1, 1],
    [2, 2],
  ]);
  let reopened = false;
  takeChunk(words, () => 1);
  // It has read the ticket of run 1; before its exchange, run 2 is opened.
  const late = takeChunk(words, (kernel) => {
    if (!reopened) openRun(words, 2);
    reopened = true;
    return kernel === 1 ? 2 : (counts.get(kernel) ?? 0);
  });
  assert.deepEqual(late, { kernel: 2, chunk: 0 });
});

test("run numbers go around without an end", () => {
  const words = control();
  words[0] = 0x7fffffff;
  assert.equal(openRun(words, 1), -0x80000000);
  assert.deepEqual(
    takeChunk(words, () => 1),
    { kernel: 1, chunk: 0 },
  );
});

const TWO_CORES = { isolated: true, logicalCores: 2 };

test("threads are planned from what is asked for and what the page is allowed", () => {
  assert.deepEqual(planThreads("auto", TWO_CORES), { count: 2, reason: null });
  assert.deepEqual(planThreads("auto", { isolated: true, logicalCores: 64 }), {
    count: 8,
    reason: null,
  });
  assert.deepEqual(planThreads(3, TWO_CORES), { count: 3, reason: null });
  assert.deepEqual(planThreads(1, TWO_CORES), { count: 1, reason: null });
  for (const [limits, reason] of [
    [{ isolated: false, logicalCores: 2 }, /not cross-origin isolated/],
    [{ isolated: true, logicalCores: 1 }, /one logical core/],
    [{ isolated: true, shares: false, logicalCores: 2 }, /lets no threads share memory/],
  ] as const) {
    const plan = planThreads("auto", limits);
    assert.equal(plan.count, 1);
    assert.match(plan.reason ?? "", reason);
  }
  for (const senseless of [0, -1, 1.5, Number.NaN, 65]) {
    assert.throws(() => planThreads(senseless, TWO_CORES), /ask for 1 to 64/);
  }
});

test("threads give the output of one thread, for several kernels and many runs", async () => {
  const arena = new Arena();
  const pool = await ThreadPool.start(arena, 2, spawn);
  const sum = bound(pool, arena, "add", 1000, 2);
  const difference = bound(pool, arena, "subtract", 77, 2);
  for (let round = 0; round < 50; round++) {
    sum.output.fill(Number.NaN);
    difference.output.fill(Number.NaN);
    await Promise.all([sum.threaded.run(), difference.threaded.run()]);
    assert.ok(sum.output.every((entry) => entry === 5));
    assert.ok(difference.output.every((entry) => entry === -1));
  }
  pool.dispose();
});

test("a trap rejects its run, and the threads go on", async () => {
  const arena = new Arena();
  const pool = await ThreadPool.start(arena, 2, spawn);
  await assert.rejects(bound(pool, arena, "trap", 9, 0).threaded.run(), /trapped in a thread/);
  const { threaded, output } = bound(pool, arena, "add", 9, 1);
  await threaded.run();
  assert.equal(output[8], 3);
  pool.dispose();
});

test("a kernel of no extent is done at once, and never called", async () => {
  const arena = new Arena();
  const pool = await ThreadPool.start(arena, 1, spawn);
  await assert.doesNotReject(
    bound(pool, arena, "trap", 0, 0).threaded.run(),
    "its call would trap",
  );
  pool.dispose();
});

test("after disposal runs are rejected, and the control block is lent again", async () => {
  const arena = new Arena();
  const pool = await ThreadPool.start(arena, 1, spawn);
  const { threaded } = bound(pool, arena, "add", 9, 1);
  pool.dispose();
  pool.dispose();
  await assert.rejects(threaded.run(), /disposed of/);
  assert.equal(arena.allocate(8).start, 64);
});

test("threads start with the first kernel that runs on them", async () => {
  let started = 0;
  const counted = (text: string): Thread => {
    started += 1;
    return spawn(text);
  };
  const arena = new Arena();
  const threads = new Threads(arena, 2, TWO_CORES, counted);
  assert.deepEqual([threads.size, threads.reason, started], [2, null, 0]);
  const [pool, same] = await Promise.all([threads.pool(), threads.pool()]);
  assert.equal(started, 2);
  assert.equal(pool, same);
  const { threaded, output } = bound(pool as ThreadPool, arena, "add", 9, 1);
  await threaded.run();
  assert.equal(output[8], 3);
  threads.dispose();
  await assert.rejects(threads.pool(), /disposed of/);
});

test("a page that may not start workers has one thread, with the reason", async () => {
  const broken = new Threads(new Arena(), 2, TWO_CORES, () => spawn("throw new Error('refused')"));
  assert.equal(await broken.pool(), null);
  assert.equal(broken.size, 1);
  assert.match(broken.reason ?? "", /refused.*worker-src blob:/s);
  const refused = new Threads(new Arena(), 2, TWO_CORES, () => {
    throw new Error("SecurityError");
  });
  assert.equal(await refused.pool(), null);
  assert.match(refused.reason ?? "", /may not start workers/);
});
