import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { WasmExecutor } from "../src/backend/wasm/executor.js";
import { memoryNotebook } from "../src/device/notebook.js";
import { Arena } from "../src/engine/arena.js";
import { breathing } from "../src/executor/event-loop.js";
import { GoldenFile } from "../src/executor/golden-file.js";
import type { LoadOrder } from "../src/executor/messages.js";
import { RunsFirst } from "../src/executor/run-priority.js";
import { turns } from "../src/measurer/turns.js";
import { Listeners } from "../src/model/listeners.js";
import { paced } from "../src/timing/paced-loop.js";
import { bestProspect } from "../src/tuning/contest.js";
import { HangDetector } from "../src/tuning/hang-detector.js";
import { Lulls } from "../src/tuning/idle-gate.js";
import { LentTurn } from "../src/tuning/lent-turn.js";
import { RunTimes } from "../src/tuning/run-times.js";
import { Audit } from "../src/tuning/wasm/audit.js";
import { type Win, Wins } from "../src/tuning/win-cache.js";
import { number, unpack } from "../src/weights/inverse-packing.js";
import type { ModelAnswer } from "../src/wire/model-answer.js";

const PLAN = {
  kernels: ["product", "rest"],
  calls: [0, 1, 0].map((kernel) => ({ kernel, tensors: [], label: "" })),
};

/** Two calls of `product` and one of `rest`, run so often. */
function ran(times: RunTimes, productMs: number, restMs: number, runs = 8): readonly string[] {
  const run = Float64Array.of(0, productMs / 2, 1, 0, restMs, 1, 0, productMs / 2, 1);
  return Array.from({ length: runs }, () => times.ran(run)).flat();
}

test("a kernel that is slower in runs than the one before is named once", () => {
  const times = new RunTimes(PLAN, false);
  ran(times, 4, 6);
  times.swapped("product", 0.9);
  assert.deepEqual(times.ms, { product: 3.6, rest: 6 }, "what is expected of it");
  assert.deepEqual(ran(times, 4.4, 6, 7), []);
  assert.deepEqual(ran(times, 4.4, 6, 9), ["product"]);
  times.takenBack("product");
  assert.deepEqual(times.ms, { product: 4, rest: 6 });
  assert.deepEqual(ran(times, 9, 6), [], "nothing was swapped");
});

test("of several that followed each other none runs once the last is taken back", () => {
  const times = new RunTimes(PLAN, false);
  ran(times, 4, 6);
  times.swapped("product", 0.5);
  assert.deepEqual(ran(times, 2.2, 6), []);
  times.swapped("product", 0.5);
  assert.deepEqual(times.ms, { product: 1.1, rest: 6 });
  assert.deepEqual(ran(times, 3, 6), ["product"]);
  times.takenBack("product");
  assert.deepEqual(
    times.ms,
    { product: 4.4, rest: 6 },
    "what ran first, as fast as the device is now",
  );
});

test("a kernel that is as fast, or slower only as all are, stays", () => {
  const times = new RunTimes(PLAN, false);
  ran(times, 4, 6);
  times.swapped("product", 0.9);
  assert.deepEqual(ran(times, 4.1, 6), []);
  times.swapped("product", 0.9);
  assert.deepEqual(ran(times, 3, 5), []);
  times.swapped("product", 0.9);
  assert.deepEqual(ran(times, 3.7, 6), [], "all are slower, but not than at first");
  const short = new RunTimes(PLAN, false);
  ran(short, 0.1, 6);
  short.swapped("product", 0.9);
  assert.deepEqual(ran(short, 0.2, 6), [], "a step of the clock tells nothing");
  const isolated = new RunTimes(PLAN, true);
  ran(isolated, 0.1, 6);
  isolated.swapped("product", 0.9);
  assert.deepEqual(ran(isolated, 0.11, 6), ["product"], "finer clocks tell more");
});

test("a kernel with which the model is slower than at first does not stay", () => {
  const times = new RunTimes(PLAN, true);
  ran(times, 4, 6);
  times.swapped("product", 0.9);
  assert.deepEqual(ran(times, 3.6, 7), ["product"], "it leaves others' weights out of the caches");
});

test("a device that becomes slower is no reason against every later kernel", () => {
  const times = new RunTimes(PLAN, true);
  const swapped = (productMs: number, restMs: number): readonly string[] => {
    times.swapped("product", 0.9);
    return ran(times, productMs, restMs);
  };
  ran(times, 10, 6);
  assert.deepEqual(swapped(9, 6), []);
  ran(times, 1.3 * 9, 1.3 * 6);
  assert.deepEqual(swapped(1.3 * 8, 1.3 * 6), [], "it was slower before the swap");
  assert.deepEqual(swapped(2 * 7, 2 * 6), ["product"], "that may be the kernel's fault");
  times.takenBack("product");
  ran(times, 2 * 8, 2 * 6);
  assert.deepEqual(swapped(2 * 7, 2 * 6), [], "but what ran before is slower, too");
  ran(times, 7, 6);
  assert.deepEqual(swapped(6.9, 7.6), [], "it has cooled down");
  assert.deepEqual(swapped(6.8, 10), ["product"], "and what is slower than at first is found");
});

test("where most time may be won is measured first, and others once that was in vain", () => {
  const large = { workload: "large", inferenceMs: 50, callMs: 1, expected: null, inVain: 0 };
  const small = { workload: "small", inferenceMs: 20, callMs: 1, expected: null, inVain: 0 };
  assert.equal(bestProspect([small, large])?.workload, "large");
  assert.equal(bestProspect([small, { ...large, inVain: 6 }])?.workload, "small");
  assert.equal(bestProspect([{ ...small, expected: 0.5 }, large])?.workload, "small");
});

test("a run that is asked for goes before the next slice of whatever else there is", async () => {
  const order: string[] = [];
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const runs = new RunsFirst(turn);
  const work = async (): Promise<void> => {
    for (let i = 0; i < 4; i++) {
      order.push(`slice ${i}`);
      await runs.rest();
    }
  };
  const other = work();
  await turn();
  await runs.first(async () => {
    order.push("run");
    for (let i = 0; i < 9; i++) await turn();
    order.push("ran");
  });
  await other;
  const asked = order.indexOf("run");
  assert.equal(order[asked + 1], "ran", "no slice comes between");
  assert.ok(asked <= 3, "at most the slice that was under way comes before it");
  assert.equal(order.length, 6);
});

test("what nothing stops is begun where it ends before the next inference, by the lulls before", async () => {
  let nowMs = 0;
  const lulls = new Lulls(() => nowMs);
  const isOpen = (passedMs: number, ms: number): boolean => {
    nowMs = 1_000 + passedMs;
    return lulls.gate(ms).isOpen;
  };
  assert.equal(isOpen(0, 1), false, "nobody has said that no inference runs");
  for (const lullMs of [800, 20]) {
    lulls.begin();
    nowMs += lullMs;
    lulls.end();
  }
  assert.equal(isOpen(0, 1), false, "an inference runs");
  lulls.begin();
  const open = [0, 13, 14, 15, 16, 29, 30].map((passedMs) => isOpen(passedMs, 5));
  assert.deepEqual(open, [true, true, true, false, false, false, true], "with a margin of 1 ms");
  assert.equal(isOpen(16, 2.5), true, "what is shorter may begin later");
  nowMs = 1_800;
  lulls.end();
  nowMs = 1_000;
  lulls.begin();
  assert.equal(isOpen(15, 5), false, "one long lull is no reason to expect another");
  lulls.end();
  const order: string[] = [];
  const work = (name: string) => () =>
    new Promise<void>((done) => {
      order.push(name);
      setImmediate(done);
    });
  const all = Promise.all(
    ["first", "second"].map((name) => lulls.within(work(name), lulls.gate(5))),
  );
  await new Promise(setImmediate);
  assert.deepEqual(order, [], "it waits for the inference's end");
  lulls.begin();
  await all;
  assert.deepEqual(order, ["first", "second"]);
});

test("where no lull is as long as the work, it is begun with one lull of so many", async () => {
  let nowMs = 0;
  const lulls = new Lulls(() => nowMs);
  const gate = lulls.gate(5, 3);
  const open: boolean[] = [];
  const lull = (ms: number, lateMs = 0, takesMs = 5): void => {
    lulls.begin();
    nowMs += lateMs;
    open.push(gate.isOpen);
    if (gate.isOpen) gate.begin();
    nowMs += takesMs;
    if (open.at(-1)) gate.end();
    nowMs += ms - lateMs - takesMs;
    lulls.end();
    nowMs += 1;
  };
  for (let i = 0; i < 7; i++) lull(1);
  assert.deepEqual(open, [false, false, true, false, false, true, false]);
  lull(1);
  lull(1, 1);
  lull(1);
  assert.deepEqual(open.splice(0).slice(8), [false, true], "the next one, where it came too late");
  for (let i = 0; i < 3; i++) lull(20);
  assert.deepEqual(open.splice(0), [false, false, true], "then each lull is long enough");
  for (let i = 0; i < 3; i++) lull(20, 0, 19.5);
  assert.deepEqual(
    open.splice(0),
    [true, false, false],
    "what takes longer now waits for its turn",
  );
  for (let i = 0; i < 2; i++) lull(20, 0, 1);
  assert.deepEqual(open.splice(0), [true, true], "and is shorter thereafter");
  const waited = lulls.gate(50, 2).pass();
  lulls.begin();
  await waited;
});

test("a tab that is paused for long in its turn lends it to others, and goes on when it has it again", async () => {
  let last: Promise<unknown> = Promise.resolve();
  const locks = {
    request: <T>(_: string, work: () => Promise<T>): Promise<T> => {
      const held = last.then(work);
      last = held;
      return held;
    },
  };
  const order: string[] = [];
  const [tab, other] = [1, 2].map(() => new LentTurn(turns(locks, undefined), 20)) as [
    LentTurn,
    LentTurn,
  ];
  const first = tab.within(async () => {
    await tab.take();
    order.push("what has the turn does not wait for it");
    tab.pause();
    await sleep(5);
    tab.resume();
    await sleep(40);
    order.push(`a short pause: ${tab.isMissing}`);
    tab.pause();
    await sleep(40);
    order.push(`a long one: ${tab.isMissing}`);
    await tab.take();
    order.push(`with its turn: ${tab.isMissing}`);
  });
  const second = other.within(async () => {
    order.push("another's turn");
    await sleep(60);
    order.push("it ends");
  });
  await Promise.all([first, second]);
  assert.deepEqual(order, [
    "what has the turn does not wait for it",
    "a short pause: false",
    "another's turn",
    "a long one: true",
    "it ends",
    "with its turn: false",
  ]);
  assert.equal(tab.isMissing, false, "nothing is under way that wants one");
  await other.within(async () => undefined);
});

test("the golden file is fetched once, read in pieces, and refused where it is another", async () => {
  const golden = Float32Array.from({ length: 600_000 }, (_, i) => i);
  let fetched = 0;
  const host = createServer((_, answer) => {
    fetched += 1;
    answer.end(new Uint8Array(golden.buffer));
  });
  await new Promise<void>((done) => host.listen(0, done));
  const origin = `http://127.0.0.1:${(host.address() as AddressInfo).port}/`;
  const port = { name: "x", dtype: "float32", shape: [], tensor: 0 };
  const [inputs, outputs] = [
    [{ offset: 8, bytes: 16 }],
    [{ offset: 400_000, bytes: golden.byteLength - 400_000 }],
  ];
  const fileOf = (sha256: string): [GoldenFile, () => number] => {
    const plan = { inputs: [port], outputs: [port], golden: { sha256, inputs, outputs } };
    const order = { origin, answer: { plan, golden: { url: "golden" } } };
    let rests = 0;
    const rest = async (): Promise<void> => void rests++;
    return [new GoldenFile(order as unknown as LoadOrder, rest), () => rests];
  };
  const digest = createHash("sha256").update(new Uint8Array(golden.buffer)).digest("hex");
  const [file, rests] = fileOf(digest);
  assert.deepEqual(await file.inputs(), [Float32Array.of(2, 3, 4, 5)]);
  assert.ok(rests() > 50, `${rests()} slices`);
  const pieces: number[] = [];
  for await (const piece of file.output(0)) {
    pieces.push(piece.length);
    assert.equal(piece[0], 100_000 + (pieces.length - 1) * (1 << 18));
  }
  assert.deepEqual(pieces, [1 << 18, 500_000 - (1 << 18)]);
  assert.equal(fetched, 1);
  await assert.rejects(fileOf("00")[0].inputs(), { stage: "artifact" });
  host.close();
  host.closeAllConnections();
});

test("entries are looked at with a rest after each half of a millisecond", async () => {
  let [rests, sum] = [0, 0];
  const spin = (): void => {
    for (const untilMs = performance.now() + 1; performance.now() < untilMs; );
  };
  const rest = async (): Promise<void> => void rests++;
  await paced(20_000, rest, (from, to) => {
    spin();
    sum += to - from;
  });
  assert.deepEqual([sum, rests], [20_000, 6]);
});

/** A model of two calls that copy a million entries in 64 units, of which the first runs, watched after a swap. */
function audited(tolerance = 1e-5) {
  const [entries, extent] = [1 << 20, 64];
  const memory = new WebAssembly.Memory({ initial: 160, maximum: 320, shared: true });
  const arena = new Arena(memory, [{ start: 0, end: 8 * entries }]);
  const floats = new Float32Array(memory.buffer);
  for (let i = 0; i < entries; i++) floats[i] = Math.fround(Math.sin(i));
  const copy = (from = 0, to = 0, lo = 0, hi = 0): void => {
    const unit = entries / extent;
    floats.copyWithin(to / 4 + lo * unit, from / 4 + lo * unit, from / 4 + hi * unit);
  };
  const task = { artifact: "", extent, words: [0, 4 * entries], hasScratch: false, weights: 0 };
  const learnt = { alone: 4, shared: Number.POSITIVE_INFINITY, runs: 9 };
  const ready = { task, main: copy, words: task.words, learnt };
  const tensor = { dtype: "f32", shape: [entries] };
  const call = { tensors: [0, 1] };
  const plan = { tensors: [tensor, tensor], calls: [call, call], golden: { tolerance } };
  const engine = { memory, loaded: { threads: 1 }, order: { answer: { plan } } };
  const audit = new Audit(engine as unknown as WasmExecutor, arena);
  const { before, after } = audit.watch("copy", 0, ready, ready);
  let filled = 0;
  const run = (wrong: (floats: Float32Array) => void = () => undefined): void => {
    const beyond = new Int32Array(memory.buffer, 8 * entries).fill(0);
    before();
    filled = beyond.reduce((sum, bits) => sum + (bits === 0x7fc0dead ? 1 : 0), 0);
    copy(0, 4 * entries, 0, extent);
    wrong(floats.subarray(entries, 2 * entries));
    after();
    // As if the model had run for 50 ms: an audit may take 1 ms.
    audit.ran(Float64Array.of(0, 50, 1));
  };
  return { run, filled: () => filled, audit, ready };
}

test("an audit looks at no more entries than are compared in a moment", () => {
  const { run, filled } = audited();
  const looked = Array.from({ length: 10 }, () => {
    run();
    return filled();
  });
  assert.ok(Math.max(...looked) < 1 << 13, `${looked} of a million`);
  // On a busy machine one takes longer than several may.
  assert.ok(Math.max(...looked) > 0, "there are audits");
});

test("an audit finds a wrong row where it has computed it, and any wrong output at once", () => {
  const row = audited();
  const spoilt = (floats: Float32Array): void => void floats.fill(2, 300_000, 301_000);
  assert.throws(() => {
    for (let i = 0; i < 200; i++) row.run(spoilt);
  }, /disagrees with the kernel before/);
  const all = audited();
  all.run();
  assert.throws(() => all.run((floats) => floats.fill(0)), /disagrees with the kernel before/);
});

test("a call whose kernel was taken back keeps no other from its audit", () => {
  const { run, filled, audit, ready } = audited();
  /** On a busy machine one audit takes what many runs allow. */
  const isAudited = (): boolean =>
    Array.from({ length: 100 }).some(() => {
      run();
      return filled() > 0;
    });
  audit.watch("other", 1, ready, ready);
  assert.ok(isAudited());
  assert.ok(!isAudited(), "it is the turn of the other, which does not run");
  audit.forget(new Map([[1, ready]]));
  assert.ok(isAudited());
});

test("all who let messages in at once go on thereafter, in their order", async () => {
  const made: MessageChannel[] = [];
  const Usual = globalThis.MessageChannel;
  globalThis.MessageChannel = class extends Usual {
    constructor() {
      super();
      made.push(this);
    }
  };
  const breathe = breathing();
  const order: number[] = [];
  await Promise.all([1, 2, 3].map((i) => breathe().then(() => order.push(i))));
  assert.deepEqual(order, [1, 2, 3]);
  globalThis.MessageChannel = Usual;
  // Else its channel keeps the process from its end.
  for (const { port1 } of made) port1.close();
});

test("a listener that throws keeps an event from nobody, and is reported", () => {
  const [heard, reported]: [string[], unknown[]] = [[], []];
  globalThis.reportError = (thrown) => void reported.push(thrown);
  const listeners = new Listeners<{ readonly swap: string }>();
  const fault = new Error("of the page");
  listeners.on("swap", () => {
    throw fault;
  });
  listeners.on("swap", (told) => heard.push(told));
  listeners.tell("swap", "product");
  assert.deepEqual([heard, reported], [["product"], [fault]]);
});

/** The zoo serves `default` for two workloads. */
const SERVED = {
  kernels: { product: { kernel: { sha256: "default" } }, sum: { kernel: { sha256: "default" } } },
} as unknown as ModelAnswer;

const win = (sha256: string): Win =>
  ({ kernel: { sha256 }, over: "default", relativeTime: 0.9, at: 1 }) as unknown as Win;

const workloads = (wins: ReturnType<Wins["trusted"]>): readonly string[] =>
  wins.map(([workload]) => workload);

test("models and tabs that note their wins at one place lose none of others", () => {
  const notes = memoryNotebook();
  const [one, other] = [1, 2].map(() => new Wins(notes, "zoo", "class", "137")) as [Wins, Wins];
  one.keep("product", win("a"));
  other.keep("sum", win("b"));
  one.keep("product", win("c"));
  assert.deepEqual(workloads(one.trusted(SERVED)), ["product", "sum"]);
  other.forget(["product"]);
  assert.deepEqual(workloads(one.trusted(SERVED)), ["sum"]);
});

test("after an update wins are unproven one by one until they win again", () => {
  const notes = memoryNotebook({ "won:zoo:class": "null" });
  const before = new Wins(notes, "zoo", "class", "137");
  before.keep("product", win("a"));
  before.keep("sum", win("b"));
  before.avoid("c");
  const after = new Wins(notes, "zoo", "class", "138");
  assert.deepEqual(after.trusted(SERVED), []);
  assert.deepEqual(workloads(after.unproven(SERVED)), ["product", "sum"]);
  assert.deepEqual(after.avoided, [], "what failed before may do now");
  after.keep("product", win("a"));
  assert.deepEqual(workloads(after.trusted(SERVED)), ["product"]);
  assert.deepEqual(workloads(after.unproven(SERVED)), ["sum"]);
});

test("what fails in one version of a browser is still avoided in another", () => {
  const notes = memoryNotebook();
  const before = new Wins(notes, "zoo", "class", "137");
  before.avoid("a");
  before.avoid("b");
  const after = new Wins(notes, "zoo", "class", "138");
  after.avoid("c");
  const again = (browser: string): readonly string[] =>
    new Wins(notes, "zoo", "class", browser).avoided;
  assert.deepEqual(again("137"), ["a", "b"]);
  assert.deepEqual(again("138"), ["c"]);
});

test("a win that is avoided does not run, even where nothing can be noted", () => {
  const notes = memoryNotebook();
  new Wins(notes, "zoo", "class", "137").keep("product", win("a"));
  const full = new Wins({ ...notes, write: () => undefined }, "zoo", "class", "137");
  full.avoid("a");
  assert.deepEqual(full.trusted(SERVED), []);
  assert.deepEqual(full.avoided, ["a"]);
});

test("a run that takes far longer than usual does not end, unless the page was away", () => {
  let nowMs = 0;
  const detector = new HangDetector(() => nowMs);
  /** Seconds after which it is told that a run does not end; null where that is not within a minute. */
  const told = (): number | null => {
    for (const startMs = nowMs; nowMs < startMs + 60_000; ) {
      nowMs += 1_000;
      if (detector.look()) return (nowMs - startMs) / 1_000;
    }
    return null;
  };
  detector.begin();
  assert.equal(told(), null, "the first may wait for weights");
  detector.end();
  detector.begin();
  nowMs += 10;
  detector.end();
  assert.equal(told(), 5, "a short one");
  detector.begin();
  nowMs += 9_000;
  assert.equal(detector.look(), false, "the page was frozen");
  assert.equal(told(), 5);
  const slow = new HangDetector(() => nowMs);
  slow.begin();
  nowMs += 1_000;
  slow.end();
  nowMs += 1_000;
  for (let i = 1; i < 20; i++, nowMs += 1_000) assert.equal(slow.look(), false);
  nowMs += 1_000;
  assert.equal(slow.look(), true, "one of a model whose runs take a second");
});

/** A layout of panels of two columns, the last of which is filled with zeros. */
function panels(from: Int32Array, [rows, columns]: readonly [number, number]): Int32Array {
  const packed = new Int32Array(rows * 2 * Math.ceil(columns / 2));
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const panel = Math.floor(column / 2);
      packed[2 * (rows * panel + row) + (column % 2)] = from[row * columns + column] as number;
    }
  }
  return packed;
}

test("a copy of a weight is undone by what its pack kernel makes of the numbers 1, 2, 3, …", async () => {
  const shape = [300, 333] as const;
  const weight = Int32Array.from({ length: 300 * 333 }, (_, i) => (i * 2_654_435_761) | 0);
  const numbers = new Int32Array(weight.length);
  const rest = async (): Promise<void> => undefined;
  await number(numbers, rest);
  assert.deepEqual([numbers[0], numbers.at(-1)], [1, weight.length]);
  const plain = new Int32Array(weight.length);
  assert.ok(await unpack(panels(numbers, shape), panels(weight, shape), plain, rest));
  assert.deepEqual(plain, weight);
});

test("a copy that lacks entries of the weight, or computes with them, is not undone", async () => {
  const rest = async (): Promise<void> => undefined;
  const undone = (origins: readonly number[]): Promise<boolean> =>
    unpack(Int32Array.from(origins), new Int32Array(4), new Int32Array(4), rest);
  assert.equal(await undone([4, 3, 2, 1]), true);
  assert.equal(await undone([1, 2, 3, 3]), false, "the fourth lies nowhere");
  assert.equal(await undone([1, 2, 3, 0]), false);
  assert.equal(await undone([1, 2, 3, 7]), false, "a sum of two");
  assert.equal(await undone([1, 2, 3, -1]), false);
});
