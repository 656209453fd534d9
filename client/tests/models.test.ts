import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { type TestContext, test } from "node:test";
import { deflateSync } from "node:zlib";
import { rangeOfPart } from "../src/backend/wasm/call-parts.js";
import { Crew, type Hand } from "../src/backend/wasm/crew.js";
import { Dispatcher } from "../src/backend/wasm/dispatch.js";
import { place, type WeightCopy } from "../src/backend/wasm/memory.js";
import type { Linked, Main } from "../src/backend/wasm/program.js";
import { toFloat16 } from "../src/engine/float16.js";
import { unstoppable } from "../src/executor/event-loop.js";
import { buffersOf, isShared } from "../src/executor/transferables.js";
import { type Feeds, Misfit, storedFeeds, tensorData } from "../src/model/feeds.js";
import { release, reserve } from "../src/model/memory-budget.js";
import { misfitText, noRoom } from "../src/sdk/refusals.js";
import { ARRIVAL_WORDS, Arrivals, countOf } from "../src/weights/arrivals.js";
import { weightSink } from "../src/weights/loader.js";
import {
  type FromPreparer,
  type Preparer,
  preparedBeside,
  preparing,
} from "../src/weights/preparer.js";
import { streamWeights } from "../src/weights/stream.js";
import { unpacking } from "../src/weights/unpacker.js";
import type { PlanWire, PortWire, WeightWire } from "../src/wire/model-answer.js";
import type { KernelWire } from "../src/wire/types.js";
import { bytesOf, tinyKernel, tinyPackedKernel, tinyPlan } from "./kernels.js";

const ELEMENTS = 8;
const port = (dtype: PortWire["dtype"], entries = 4): PortWire => {
  return { name: "x", dtype, shape: [entries], tensor: 0 };
};

/** The second kernel wants w packed. */
const PLAN = tinyPlan(ELEMENTS, ["plain", "packed"]);

const kernelOf = (workload: string) =>
  workload === "plain" ? tinyKernel("add", ELEMENTS) : tinyPackedKernel(ELEMENTS);

test("a model beyond 32 bits of addresses is refused with what to do", () => {
  const activations = 2 ** 32 - 2 ** 16;
  const fits = { ...PLAN, memory: { weights: 4 * ELEMENTS, activations } };
  assert.ok(place(fits, kernelOf, 1).totalBytes <= 2 ** 32);
  const large = { ...PLAN, memory: { weights: 4 * ELEMENTS, activations: 2 ** 32 } };
  assert.throws(() => place(large, kernelOf, 1), {
    stage: "memory",
    message:
      "The model takes 4097 MiB; WebAssembly addresses 4096 MiB. Open it with WebGPU, smaller " +
      "dimensions or weights of fewer bits.",
  });
});

test("a weight that is read plain and packed is placed twice, one that is read packed once", () => {
  const both = place(PLAN, kernelOf, 1);
  assert.equal(both.weights[0]?.length, 2);
  assert.deepEqual(
    both.weights[0]?.map(({ pack }) => pack === null),
    [true, false],
  );
  const packed = place({ ...PLAN, calls: PLAN.calls.slice(1) }, kernelOf, 1);
  assert.equal(packed.weights[0]?.length, 1);
  assert.equal(packed.weights[0]?.[0]?.pack !== null, true);
  const [plain] = packed.plain as [number];
  assert.ok(plain >= packed.activations + PLAN.memory.activations, "runs may go on");
});

const weightAt = (offset: number): WeightWire => ({
  name: `w${offset}`,
  dtype: "f32",
  shape: [ELEMENTS],
  offset,
  bytes: 4 * ELEMENTS,
});
const entriesAt = (at: number) => ({ dtype: "f32", shape: [ELEMENTS], at }) as const;

/** y = x + w0, z = y + w1, both from packed weights; nothing needs the memory of x from the second on. */
const CHAIN: PlanWire = {
  ...PLAN,
  tensors: [
    entriesAt(128),
    entriesAt(0),
    entriesAt(64),
    { dtype: "f32", shape: [ELEMENTS], weight: 0 },
    { dtype: "f32", shape: [ELEMENTS], weight: 1 },
  ],
  weights: [weightAt(0), weightAt(4 * ELEMENTS)],
  kernels: ["packed"],
  calls: [
    { kernel: 0, tensors: [0, 3, 1], label: "first" },
    { kernel: 0, tensors: [1, 4, 2], label: "second" },
  ],
  memory: { weights: 8 * ELEMENTS, activations: 192 },
};

test("weights that come in order take no memory of their own until they are packed", () => {
  const { plain, rooms, weights, totalBytes, ...placed } = place(CHAIN, kernelOf, 1, true);
  const [first, last] = weights.map((copies) => copies[0]?.address) as [number, number];
  assert.deepEqual(plain, [last, last], "the first in the place of the last, which comes later");
  assert.deepEqual([...rooms], [undefined, placed.activations + 128], "where x was");
  const usual = place(CHAIN, kernelOf, 1);
  assert.equal(usual.totalBytes - totalBytes, 64, "one weight less");
  assert.equal(usual.plain[0], usual.plain[1]);
  assert.ok((usual.plain[0] as number) < (usual.weights[0]?.[0]?.address as number));

  const outputs = [{ ...PLAN.outputs[0], tensor: 0 }] as PortWire[];
  const full = place({ ...CHAIN, outputs, memory: PLAN.memory }, kernelOf, 1, true);
  assert.deepEqual([full.rooms[1], full.totalBytes], [undefined, usual.totalBytes - 64]);
  assert.ok((full.plain[1] as number) < first, "there is no room, so it is staged");
});

test("a weight that is held is packed by the run that needs it, or once none computes", async () => {
  const placement = place(CHAIN, kernelOf, 1, true);
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  const arrivals = new Arrivals(memory, placement.arrivals, 2);
  const packed: number[] = [];
  const sink = weightSink(
    memory,
    CHAIN.weights,
    placement,
    (_, from) => packed.push(from),
    arrivals,
  );
  const needed: number[] = [];
  arrivals.onneed = (weight) => needed.push(weight);
  sink(
    0,
    Uint8Array.from({ length: 8 * ELEMENTS }, (_, i) => i),
  );
  assert.deepEqual([packed, countOf(arrivals, 2), needed], [[placement.plain[0]], 2, []]);
  assert.equal(new Uint8Array(memory.buffer)[placement.plain[1] as number], 4 * ELEMENTS);
  arrivals.computing = true;
  const settled = arrivals.settled();
  assert.deepEqual([arrivals.has(1), needed], [true, [0]], "the first call does not need it");
  arrivals.onrest?.();
  await Promise.resolve();
  assert.deepEqual(needed, [0], "a run that waits still computes");
  arrivals.computing = false;
  arrivals.onrest?.();
  await settled;
  assert.deepEqual([arrivals.has(2), needed], [true, [0, 1]]);
});

test("a kernel of other tensors than its call is refused", () => {
  const other = () => tinyKernel("add", ELEMENTS + 1);
  assert.throws(() => place(PLAN, other, 1), /is of other tensors. Import the model again/);
  const packedInput = () => tinyPackedKernel(ELEMENTS);
  const calls = [{ kernel: 0, tensors: [1, 0, 2], label: "" }];
  assert.throws(() => place({ ...PLAN, calls }, packedInput, 1), /other tensors/);
});

test("a weight that arrives in pieces is packed when its last byte is there", () => {
  const placement = place({ ...PLAN, calls: PLAN.calls.slice(1) }, kernelOf, 1);
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  const packed: number[] = [];
  const arrivals = new Arrivals(memory, placement.arrivals, 1);
  const sink = weightSink(
    memory,
    PLAN.weights,
    placement,
    (_, from, to) => {
      packed.push(to);
      const entries = new Float32Array(memory.buffer, from, ELEMENTS);
      new Float32Array(memory.buffer, to, ELEMENTS).set(entries.map((entry) => -entry));
    },
    arrivals,
  );
  const file = new Uint8Array(Float32Array.from({ length: ELEMENTS }, (_, i) => i + 1).buffer);
  sink(0, file.slice(0, 7));
  sink(7, file.slice(7, 20));
  assert.deepEqual([packed, countOf(arrivals, 1)], [[], 0]);
  sink(20, file.slice(20));
  const address = placement.weights[0]?.[0]?.address as number;
  assert.deepEqual([packed, countOf(arrivals, 1)], [[address], 1]);
  assert.deepEqual([...new Float32Array(memory.buffer, address, 2)], [-1, -2]);
});

const FILE = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);
const CHUNKS = [300, 300, 300, 100].map((bytes, i) => {
  const content = FILE.subarray(300 * i, 300 * i + bytes);
  return { bytes, sha256: createHash("sha256").update(content).digest("hex") };
});
const WEIGHTS = new URL("http://host.test/weights.bin");

/** Serves `file`; the first answers break off after so many bytes. */
function host(
  t: TestContext,
  file: Uint8Array<ArrayBuffer>,
  breaks: number[],
  ranges = true,
  headers: Readonly<Record<string, string>> = {},
) {
  const asked: string[] = [];
  t.mock.method(globalThis, "fetch", async (_: URL, init: RequestInit) => {
    const range = new Headers(init.headers).get("Range");
    asked.push(range ?? "all");
    const from = range === null || !ranges ? 0 : Number.parseInt(range.slice(6), 10);
    const limit = breaks.shift();
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(file.slice(from, limit));
        if (limit === undefined) controller.close();
        else setTimeout(() => controller.error(new TypeError("connection lost")), 5);
      },
    });
    return new Response(body, { status: from > 0 ? 206 : 200, headers });
  });
  return asked;
}

async function streamed(chunks = CHUNKS, address = WEIGHTS): Promise<Uint8Array> {
  const whole = new Uint8Array(FILE.length);
  let last = 0;
  await streamWeights(address, chunks, (offset, bytes) => whole.set(bytes, offset), {
    chunk: (bytes) => {
      last = bytes;
    },
    piece: () => undefined,
  });
  assert.equal(last, FILE.length);
  return whole;
}

for (const ranges of [true, false]) {
  test(`a broken connection goes on after the last whole chunk (ranges: ${ranges})`, async (t) => {
    const asked = host(t, FILE, [450], ranges);
    assert.deepEqual(await streamed(), FILE);
    assert.deepEqual(asked, ["all", "bytes=300-"]);
  });
}

test("a host that calls any file HTML is taken for a login page only where the file is too short", async (t) => {
  const html = { "Content-Type": "text/html" };
  const asked = host(t, FILE, [450], true, html);
  assert.deepEqual(await streamed(), FILE);
  assert.deepEqual(asked, ["all", "bytes=300-"], "the connection broke");
  host(t, FILE.slice(0, 450), [], true, html);
  await assert.rejects(streamed(), /answered with a page of HTML/);
});

test("a connection that breaks again and again goes on while it brings something", async (t) => {
  const asked = host(t, FILE, [350, 650, 950, 950]);
  assert.deepEqual(await streamed(), FILE);
  const ranges = ["bytes=300-", "bytes=600-", "bytes=900-", "bytes=900-"];
  assert.deepEqual(asked, ["all", ...ranges]);
});

test("a file that lies in several goes on after the last whole chunk of the one that broke", async (t) => {
  const asked: string[] = [];
  const parts = [FILE.slice(0, 600), FILE.slice(600)];
  const limits = [undefined, 350];
  t.mock.method(globalThis, "fetch", async (url: string, { headers }: RequestInit) => {
    const range = new Headers(headers).get("Range") ?? "all";
    asked.push(`${url.slice(-2)} ${range}`);
    const from = Number.parseInt(range.slice(6), 10) || 0;
    const limit = limits.shift();
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(parts[Number(url.at(-1))]?.slice(from, limit));
        if (limit === undefined) controller.close();
        else setTimeout(() => controller.error(new TypeError("connection lost")), 5);
      },
    });
    return new Response(body, { status: from > 0 ? 206 : 200 });
  });
  assert.deepEqual(await streamed(CHUNKS, new URL("#2", WEIGHTS)), FILE);
  assert.deepEqual(asked, [".0 all", ".1 all", ".1 bytes=300-"]);
});

test("a chunk with another hash is refused, and is not asked for again", async (t) => {
  const changed = FILE.slice();
  changed[650] = 0xff;
  const asked = host(t, changed, []);
  await assert.rejects(streamed(), /weights.bin does not have the SHA-256 that the model says/);
  assert.deepEqual(asked, ["all"]);
});

const stored = (given: PortWire, feeds: Feeds) => [...(storedFeeds([given], feeds)[0] ?? [])];

test("feeds of all kinds become entries as they lie in memory", () => {
  assert.deepEqual(stored(port("int64"), { x: [1n, -2n, 3n, 4n] }), [1, -2, 3, 4]);
  assert.deepEqual(stored(port("int64"), { x: Int32Array.of(1, 2, 3, 4) }), [1, 2, 3, 4]);
  const wide = BigInt64Array.of(9n, 2n ** 31n - 1n, -(2n ** 31n), -1n, 0n);
  const taken = stored(port("int64"), { x: wide.subarray(1) });
  assert.deepEqual(taken, [2 ** 31 - 1, -(2 ** 31), -1, 0]);
  assert.deepEqual(stored(port("bool"), { x: [true, false, true, true] }), [1, 0, 1, 1]);
  assert.deepEqual(stored(port("uint8"), { x: Uint8Array.of(0, 255, 1, 2) }), [0, 255, 1, 2]);
  const large = [3e9, 0, 2 ** 31, 2 ** 32 - 1];
  const bits = [3e9 - 2 ** 32, 0, -(2 ** 31), -1];
  assert.deepEqual(stored(port("uint32"), { x: Uint32Array.from(large) }), bits);
  assert.deepEqual(stored(port("uint32"), { x: large }), bits);
  assert.deepEqual(tensorData("uint32", Int32Array.from(bits)), Uint32Array.from(large));
  const shaped = { data: [1, 2, 3, 0.5], shape: [4] };
  assert.deepEqual(stored(port("float32"), { x: shaped }), [1, 2, 3, 0.5]);
});

test("where workers share memory floats are copied once, to what the worker reads, and again to it", () => {
  const feed = Float32Array.of(1, 2, 3, 4);
  const [own] = storedFeeds([port("float32")], { x: feed }) as [Float32Array<ArrayBuffer>];
  assert.deepEqual(buffersOf([own]), [own.buffer], "elsewhere its memory moves to the worker");
  const first = storedFeeds([port("float32")], { x: feed }, null, true);
  assert.ok(first.every(isShared));
  assert.deepEqual(buffersOf(first), []);
  const [next] = storedFeeds([port("float32")], { x: Float32Array.of(5, 6, 7, 8) }, first);
  assert.equal(next, first[0]);
  assert.deepEqual([...(next ?? [])], [5, 6, 7, 8]);
});

const saying = (sentence: RegExp) => (thrown: unknown) => {
  assert.ok(thrown instanceof Misfit);
  assert.match(misfitText(thrown), sentence);
  return true;
};

test("feeds that do not fit are refused in one sentence", () => {
  const wrong: readonly [PortWire["dtype"], Feeds, RegExp][] = [
    ["uint8", { x: [0, 256, 1, 1] }, /whole numbers from 0 to 255; entry 1 is 256/],
    ["bool", { x: [0, 1, 2, 1] }, /from 0 to 1; entry 2 is 2/],
    ["uint32", { x: [0, 1, -1, 1] }, /from 0 to 4294967295; entry 2 is -1/],
    ["uint32", { x: Int32Array.of(0, 1, -1, 1) }, /entry 2 is -1/],
    ["int64", { x: [1n, 1n << 40n, 1n, 1n] }, /entry 1 is 1099511627776/],
    ["int64", { x: BigInt64Array.of(1n, 2n, 2n ** 31n, 4n) }, /entry 2 is 2147483648/],
    ["int64", { x: BigInt64Array.of(-(2n ** 31n) - 1n, 1n, 1n, 1n) }, /entry 0 is -2147483649/],
    ["int32", { x: [0, 1, 2, Number.NaN] }, /entry 3 is NaN/],
    ["float32", { x: [true, true, true, true] }, /give a Float32Array, no entries of boolean/],
    ["float32", { x: "text" as never }, /give a Float32Array, no entries of string/],
    ["int64", { x: "text" as never }, /entry 0 is t/],
    ["float32", { x: { data: [1, 2, 3, 4], shape: [2, 2] } }, /has the shape 4, not 2×2/],
    ["float32", {}, /Input x is missing: give 4 entries of float32/],
  ];
  for (const [dtype, feeds, sentence] of wrong) {
    assert.throws(() => stored(port(dtype), feeds), saying(sentence));
  }
});

test("outputs come in the typed array of their dtype", () => {
  const entries = Int32Array.of(0, 1, -1);
  assert.deepEqual(tensorData("int64", entries), BigInt64Array.of(0n, 1n, -1n));
  assert.deepEqual(tensorData("bool", Int32Array.of(0, 1)), Uint8Array.of(0, 1));
  assert.equal(tensorData("int32", entries), entries);
});

test("models of a page share its memory, and one that does not fit names the others", () => {
  const [first, second] = [{}, {}];
  assert.equal(reserve(first, "one", 600, 1000), null);
  const lack = reserve(second, "two", 600, 1000);
  assert.match(
    lack ? noRoom("two", 600, lack, "wasm") : "",
    /two takes .* Dispose of one \(1 MiB\)/,
  );
  const alone = { leftBytes: 2 ** 32, others: [] };
  assert.equal(
    noRoom("two", 2 ** 33, alone, "webgpu"),
    "two takes 8192 MiB; 4096 MiB are left. Give more memoryBytes.",
  );
  assert.match(noRoom("two", 2 ** 33, alone, "wasm"), /two takes 8192 MiB; WebAssembly addresses/);
  assert.equal(reserve(first, "one", 900, 1000), null, "its own part does not count against it");
  release(first);
  assert.equal(reserve(second, "two", 600, 1000), null);
  release(second);
});

/** A call that takes `ms` of a clock that only calls move. */
function clocked(ms: number, extent: number) {
  const at = { now: 0, ranges: [] as (readonly [number, number])[] };
  const main: Main = (...words) => {
    const [lo = 0, hi = 0] = words.slice(-2);
    at.ranges.push([lo, hi]);
    at.now += (ms * (hi - lo)) / extent;
  };
  return { at, main };
}

test("a call is cut so that an abort is heard within milliseconds, and covers its range once", async () => {
  const { at, main } = clocked(50, 100);
  let breaths = 0;
  const tasks = [{ artifact: "k", extent: 100, words: [], hasScratch: false, weights: 0 }];
  const blame = (_: number, cause: unknown) => cause as Error;
  const ports = { breathe: async () => void breaths++, clock: () => at.now };
  const dispatcher = new Dispatcher(tasks, new Map([["k", main]]), 0, null, blame, ports);
  for (let run = 0; run < 2; run++) {
    at.ranges.length = 0;
    await dispatcher.run(() => false);
    assert.equal(at.ranges.at(-1)?.[1], 100);
    assert.ok(at.ranges.every(([lo], i) => lo === (at.ranges[i - 1]?.[1] ?? 0)));
    assert.ok(
      at.ranges.every(([lo, hi]) => hi - lo <= 6),
      "3 ms",
    );
  }
  assert.ok(breaths > 20);
  const stopped = at.now;
  assert.equal(await dispatcher.run(() => at.now > stopped + 20), null);
  assert.ok(at.now < stopped + 26);
  breaths = 0;
  assert.notEqual(await dispatcher.run(unstoppable), null);
  assert.equal(breaths, 0, "nobody can stop it");
});

test("threads that pay help, although what they ran first was slow, disturbed or baseline code", async () => {
  const at = { now: 0 };
  /** Milliseconds of each run with threads, and of each alone. */
  const times = { together: [0.5, 0.09, 0.06, 0.05, 0.02], alone: [0.04, 0.03, 0.03] };
  const spend = (all: number[]): void => {
    at.now += (all.length > 1 ? all.shift() : all[0]) ?? 0;
  };
  const crew = { threads: 2, up() {}, down() {}, run: () => spend(times.together) };
  const tasks = [{ artifact: "k", extent: 2, words: [], hasScratch: false, weights: 0 }];
  const mains = new Map([["k", (...[, hi]: readonly number[]) => hi === 2 && spend(times.alone)]]);
  const blame = (_: number, cause: unknown) => cause as Error;
  const ports = { breathe: async () => undefined, clock: () => at.now };
  const dispatcher = new Dispatcher(tasks, mains as Map<string, Main>, 0, crew, blame, ports);
  const ran: (number | undefined)[] = [];
  for (let run = 0; run < 90; run++) ran.push((await dispatcher.run(() => false))?.[2]);
  assert.deepEqual(ran.slice(0, 8), [2, 2, 1, 2, 2, 2, 1, 2], "both ways are tried");
  assert.deepEqual(new Set(ran.slice(8, 60)), new Set([2]));
  times.together = [0.08];
  for (let run = 0; run < 20; run++) ran.push((await dispatcher.run(() => false))?.[2]);
  assert.equal(ran.at(-1), 1, "what was fast once counts for some runs");
  times.together = [0.02];
  for (let run = 0; run < 20; run++) ran.push((await dispatcher.run(() => false))?.[2]);
  assert.equal(ran.at(-1), 2, "threads are tried again");
  times.alone = [0.01];
  for (let run = 0; run < 90; run++) ran.push((await dispatcher.run(() => false))?.[2]);
  assert.equal(ran.at(-1), 1, "the other way is tried again now and then");
});

const arrivalsOf = (weights: number): Arrivals =>
  new Arrivals({ buffer: new ArrayBuffer(4 * ARRIVAL_WORDS * weights) }, 0, weights);

test("a call waits for its weights and those before it run, and an abort is heard meanwhile", async () => {
  const arrivals = arrivalsOf(2);
  const ran: string[] = [];
  const mains = new Map(["a", "b"].map((name) => [name, () => void ran.push(name)] as const));
  const task = { extent: 1, words: [], hasScratch: false };
  const tasks = [
    { ...task, artifact: "a", weights: 1 },
    { ...task, artifact: "b", weights: 2 },
  ];
  const blame = (_: number, cause: unknown) => cause as Error;
  const ports = { breathe: async () => undefined, arrivals };
  const dispatcher = new Dispatcher(tasks, mains, 0, null, blame, ports);
  arrivals.put(0);
  const running = dispatcher.run(() => false);
  for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(ran, ["a"]);
  arrivals.put(1);
  assert.notEqual(await running, null);
  assert.deepEqual(ran, ["a", "b"]);
  const waiting = new Dispatcher(tasks, mains, 0, null, blame, {
    ...ports,
    arrivals: arrivalsOf(2),
  });
  assert.equal(await waiting.run(() => true), null);
});

test("pieces of a file are read to where their chunk wants them, where the browser can", async (t) => {
  const buffers = new Set<ArrayBuffer>();
  const places: (readonly [from: number, room: number])[] = [];
  t.mock.method(globalThis, "fetch", async () => {
    let at = 0;
    const body = new ReadableStream({
      type: "bytes",
      pull(controller) {
        const { byobRequest } = controller;
        const view = byobRequest?.view as Uint8Array<ArrayBuffer>;
        buffers.add(view.buffer);
        places.push([view.byteOffset, view.byteLength]);
        const part = FILE.subarray(at, at + Math.min(90, view.byteLength));
        at += part.length;
        if (part.length === 0) controller.close();
        else view.set(part);
        byobRequest?.respond(part.length);
      },
    });
    return new Response(body);
  });
  assert.deepEqual(await streamed(), FILE);
  const sizes = [...buffers].map(({ byteLength }) => byteLength);
  assert.ok(sizes.length > 9 && sizes.every((bytes) => bytes === 0), "each was handed back");
  const first = [
    [0, 300],
    [90, 210],
    [180, 120],
    [270, 30],
  ];
  assert.deepEqual(places.slice(0, 5), [...first, [0, 300]], "none is copied from a piece");
});

test("threads that wait for the next run are woken without a message, later ones by one", async () => {
  let at = 0;
  const told: string[] = [];
  const spawn = (): Hand => {
    const hand: Hand = {
      onmessage: null,
      onerror: null,
      terminate: () => undefined,
      postMessage: ({ type }) => {
        told.push(type);
        if (type === "crew") hand.onmessage?.({ data: { type: "ready" } } as MessageEvent);
      },
    };
    return hand;
  };
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  const start = { memory, control: 0, modules: [], tasks: [], threads: 2 };
  const crew = await Crew.start(
    start,
    () => 0,
    new Map(),
    spawn,
    () => at,
  );
  for (const pause of [0, 100, 100, 5000]) {
    at += pause;
    crew.up();
    crew.down();
  }
  assert.deepEqual(told, ["crew", "up", "up"], "the first, and the one after five seconds");
});

/** A worker beside that runs here, with a weight that one call reads plain and one packed. */
async function besides(
  t: TestContext,
  file: Uint8Array<ArrayBuffer>,
  starts = true,
  stored: Partial<PlanWire> = {},
  early = false,
) {
  const asked = host(t, file, []);
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  const placement = place(PLAN, kernelOf, 1);
  const sha256 = createHash("sha256").update(WEIGHT_FILE).digest("hex");
  const chunks = [{ bytes: WEIGHT_FILE.length, sha256 }];
  const plan = { ...PLAN, chunks, ...stored };
  let packs: (linked: readonly Linked[]) => void;
  const modules = new Promise<readonly Linked[]>((resolve) => (packs = resolve));
  const post = (data: FromPreparer) => worker.onmessage?.({ data } as MessageEvent);
  const { begin, prepare } = preparing(unpacking);
  const weights = { plan, url: WEIGHTS.href };
  const begun = early ? begin({ type: "file", file: weights }, post) : {};
  // What can arrive without a memory has arrived.
  if (early) await new Promise((resolve) => setTimeout(resolve, 20));
  const worker: Preparer = {
    onmessage: null,
    onerror: null,
    terminate: () => undefined,
    postMessage: (told) => {
      if (!starts) worker.onerror?.({ message: "blocked" } as ErrorEvent);
      else if (told.type === "kernels") packs(told.modules);
      else if (told.type === "prepare") {
        prepare(told.order, modules, post, begun).catch(({ stage, message }) =>
          post({ type: "failed", failure: { stage, message, fault: null } }),
        );
      }
    },
  };
  const arrivals = new Arrivals(memory, placement.arrivals, 1);
  const schedule = { thread: 1, receiver: 1, queues: [[], [0]], kept: null };
  const order = { memory, placement, ...weights, ...schedule };
  const module = new WebAssembly.Module(bytesOf("negate"));
  const { pack } = tinyPackedKernel(ELEMENTS).layouts[0] as KernelWire["layouts"][number];
  const linked = Promise.resolve([{ module, functions: { [pack.sha256]: "main" } }]);
  let bytes = 0;
  const arrived = {
    chunk: (all: number): void => {
      bytes = all;
    },
  };
  await preparedBeside(worker, order, linked, arrivals, arrived);
  const [plain, packed] = (placement.weights[0] as readonly WeightCopy[]).map(({ address }) => [
    ...new Float32Array(memory.buffer, address, ELEMENTS),
  ]);
  return { plain, packed, count: countOf(arrivals, 1), bytes, asked };
}

const WEIGHT = Float32Array.from({ length: ELEMENTS }, (_, i) => i + 1);
const WEIGHT_FILE = new Uint8Array(WEIGHT.buffer);

test("a worker beside puts weights into the model's memory and tells what has come", async (t) => {
  const { plain, packed, count, bytes } = await besides(t, WEIGHT_FILE);
  assert.deepEqual([plain, packed], [[...WEIGHT], [...WEIGHT].map((entry) => -entry)]);
  assert.deepEqual([count, bytes], [1, WEIGHT_FILE.length]);
});

test("a worker beside fetches weights once that it has begun to before there is a memory", async (t) => {
  const { plain, packed, asked, bytes } = await besides(t, WEIGHT_FILE, true, {}, true);
  assert.deepEqual([plain, packed], [[...WEIGHT], [...WEIGHT].map((entry) => -entry)]);
  assert.deepEqual([asked, bytes], [["all"], WEIGHT_FILE.length]);
  const changed = WEIGHT_FILE.slice();
  changed[3] = 1;
  const refused = { name: "KernelZooError", stage: "artifact" };
  await assert.rejects(besides(t, changed, true, {}, true), refused);
});

test("a worker beside inflates weights of float16, and refuses what does not inflate", async (t) => {
  const halves = new Uint8Array(toFloat16(WEIGHT).buffer);
  const file = new Uint8Array(deflateSync(halves));
  const sha256 = createHash("sha256").update(file).digest("hex");
  const [weight] = PLAN.weights as [WeightWire];
  const storage = { type: "f16", offset: 0, bytes: halves.length } as const;
  const chunk = { bytes: file.length, sha256, inflated: halves.length };
  const plan = { needs: ["stored"], weights: [{ ...weight, storage }], chunks: [chunk] } as const;
  const { plain, packed, count, bytes } = await besides(t, file, true, plan);
  assert.deepEqual([plain, packed], [[...WEIGHT], [...WEIGHT].map((entry) => -entry)]);
  assert.deepEqual([count, bytes], [1, file.length]);
  const longer = { ...plan, chunks: [{ ...chunk, inflated: halves.length + 1 }] };
  await assert.rejects(
    besides(t, file, true, longer),
    /cannot be inflated. Import the model again/,
  );
});

test("a worker beside refuses changed bytes, and says when it does not start", async (t) => {
  const changed = WEIGHT_FILE.slice();
  changed[3] = 1;
  const refused = { name: "KernelZooError", stage: "artifact" };
  await assert.rejects(besides(t, changed), refused);
  await assert.rejects(besides(t, WEIGHT_FILE, false), { name: "KernelZooError", stage: "run" });
});

test("parts of several threads keep all of them busy: rounds are as few as for the whole", () => {
  for (const [extent, threads] of [
    [8, 2],
    [32, 2],
    [9, 2],
    [16, 3],
    [2, 4],
  ] as const) {
    for (let count = 1; count <= Math.ceil(extent / threads); count++) {
      const parts = Array.from({ length: count }, (_, i) => rangeOfPart(extent, i, count, threads));
      assert.deepEqual(
        parts.map(([lo]) => lo),
        [0, ...parts.slice(0, -1).map(([, hi]) => hi)],
      );
      assert.equal(parts.at(-1)?.[1], extent);
      const rounds = parts.map(([lo, hi]) => Math.ceil((hi - lo) / threads));
      const total = rounds.reduce((sum, each) => sum + each, 0);
      assert.equal(total, Math.ceil(extent / threads), `${count} parts of ${extent}`);
    }
  }
});
