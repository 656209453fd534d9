/** Real kernels, measured in this process. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Arena } from "../src/engine/arena.js";
import { loadModule } from "../src/engine/modules.js";
import { fillSeeded, sampledPositions } from "../src/engine/seeded.js";
import type { LeaseInstrument } from "../src/measurer/instrument.js";
import { cachedLoader } from "../src/measurer/kernel-cache.js";
import { compare, sampledEntries } from "../src/measurer/measurement.js";
import { Bench } from "../src/measurer/wasm/bench.js";
import { sampling, wasmInstrument } from "../src/measurer/wasm/instrument.js";
import { clockStepMs } from "../src/timing/clock.js";
import type { KernelWire, MeasurementWire } from "../src/wire/types.js";
import {
  bytesOf,
  type Tiny,
  tinyKernel,
  tinyLease,
  tinyPackedKernel,
  tinyStateKernel,
} from "./kernels.js";

const ORIGIN = new URL("http://zoo.test");
const ELEMENTS = 1000;
const TINY: readonly Tiny[] = ["add", "subtract", "idle", "trap", "negate", "accumulate"];

function serveKernels(t: TestContext): void {
  const bodies = new Map(TINY.map((name) => [tinyKernel(name, 1).sha256, bytesOf(name)]));
  t.mock.method(globalThis, "fetch", async (url: URL) => {
    const body = bodies.get(/([0-9a-f]{64})\.wasm$/.exec(url.pathname)?.[1] ?? "");
    return new Response(body, { status: body === undefined ? 404 : 200 });
  });
}

/** Measures a kernel now, and returns what becomes of it. */
async function outcomeIn(bench: LeaseInstrument, kernel: KernelWire): Promise<MeasurementWire> {
  const work = await bench.candidate(kernel);
  return typeof work === "function" ? work() : work;
}

async function measured(t: TestContext, kernel: KernelWire) {
  serveKernels(t);
  const instrument = wasmInstrument(
    cachedLoader(ORIGIN, new AbortController().signal),
    clockStepMs(),
  );
  const lease = tinyLease([kernel], ELEMENTS);
  const bench = await instrument.open(lease, lease.candidates);
  const measurement = await outcomeIn(bench, kernel);
  const [again] = measurement.outcome === "ok" ? await (await bench.again([kernel]))() : [];
  bench.dispose();
  return { measurement, again, lease };
}

test("a right kernel is timed, and the sampled entries follow from the seed", async (t) => {
  const { measurement, again, lease } = await measured(t, tinyKernel("add", ELEMENTS));
  assert.equal(measurement.outcome, "ok");
  assert.equal(measurement.samples_ns.length, measurement.reference_ns.length);
  assert.ok(measurement.samples_ns.every((ns) => ns > 0 && Number.isFinite(ns)));
  const [a, b] = [0, 1].map((tensor) => {
    const values = new Float32Array(ELEMENTS);
    fillSeeded(values, lease.seed, tensor);
    return values;
  });
  const expected = sampledPositions(lease.seed, ELEMENTS).map((i) =>
    Math.fround((a?.[i] ?? 0) + (b?.[i] ?? 0)),
  );
  assert.deepEqual(measurement.sampled_entries, expected);
  assert.ok(again !== undefined && again > 0.2 && again < 5);
});

test("what precedes the warm runs of a kernel is measured, packing only where it packs", async (t) => {
  const compiledNow = t.mock.method(WebAssembly, "Module");
  const add = tinyKernel("add", ELEMENTS);
  for (const kernel of [add, tinyPackedKernel(ELEMENTS), add]) {
    const { measurement } = await measured(t, kernel);
    const { preparation } = measurement;
    assert.ok(preparation);
    assert.ok(preparation.compile_ns > 0 && preparation.first_run_ns > 0);
    assert.ok(preparation.optimise_ns >= 0);
    assert.equal(preparation.pack_ns > 0, kernel.layouts.length > 0);
  }
  const bytes = compiledNow.mock.calls.map(({ arguments: [given] }) => `${given}`);
  // Engines answer bytes that they have compiled before without compiling.
  assert.equal(new Set(bytes).size, 3);
  assert.equal((await measured(t, tinyKernel("trap", ELEMENTS))).measurement.preparation, null);
});

for (const [name, outcome, detail] of [
  ["subtract", "compare", /differs from the reference/],
  ["idle", "compare", /NaN/],
  ["trap", "run", /trapped/],
] as const) {
  test(`the ${name} kernel fails at ${outcome} and says why`, async (t) => {
    const { measurement } = await measured(t, tinyKernel(name, ELEMENTS));
    assert.equal(measurement.outcome, outcome);
    assert.match(measurement.detail, detail);
    assert.deepEqual(measurement.samples_ns, []);
  });
}

test("an input is packed for the kernel that wants it so, before it is timed", async (t) => {
  const { measurement, again } = await measured(t, tinyPackedKernel(ELEMENTS));
  assert.equal(measurement.outcome, "ok");
  assert.ok(again !== undefined && again > 0);
});

test("a failure leaves packed inputs right too, those of the reference among them", async (t) => {
  serveKernels(t);
  const load = cachedLoader(ORIGIN, new AbortController().signal);
  const instrument = wasmInstrument(load, clockStepMs());
  const [packed, trap] = [tinyPackedKernel(ELEMENTS), tinyKernel("trap", ELEMENTS)];
  const add = tinyKernel("add", ELEMENTS);
  const lease = { ...tinyLease([trap, add], ELEMENTS), reference: packed };
  const bench = await instrument.open(lease, [trap, add]);
  assert.equal((await outcomeIn(bench, add)).outcome, "ok");
  assert.equal((await outcomeIn(bench, trap)).outcome, "run");
  assert.equal((await outcomeIn(bench, add)).outcome, "ok");
  bench.dispose();
});

test("states hold what they held at first before each kernel, and are compared as outputs are", async (t) => {
  serveKernels(t);
  const load = cachedLoader(ORIGIN, new AbortController().signal);
  const instrument = wasmInstrument(load, clockStepMs());
  const [right, add] = (["accumulate", "add"] as const).map((name) =>
    tinyStateKernel(name, ELEMENTS),
  ) as [KernelWire, KernelWire];
  const lease = { ...tinyLease([right, add], ELEMENTS), reference: right };
  const bench = await instrument.open(lease, [right, add]);
  for (const [kernel, outcome] of [
    [right, "ok"],
    [add, "compare"],
    [right, "ok"],
  ] as const) {
    assert.equal((await outcomeIn(bench, kernel)).outcome, outcome, kernel.candidate);
  }
  bench.dispose();
});

test("weights that stay the same are timed as cold: runs take turns with right copies", async () => {
  for (const kernel of [tinyKernel("add", ELEMENTS), tinyPackedKernel(ELEMENTS)]) {
    const arena = new Arena();
    const lease = { ...tinyLease([kernel], ELEMENTS), workload: "add:f32:n1000:constant=b" };
    const compile = (name: Tiny) => WebAssembly.compile(bytesOf(name));
    const packs = new Map([[tinyKernel("negate", 1).sha256, await compile("negate")]]);
    const bench = new Bench(arena, lease, [kernel], packs);
    bench.reset();
    const module = await compile(kernel.layouts.length > 0 ? "subtract" : "add");
    const instance = bench.bind(kernel, module);
    assert.ok(arena.memory.buffer.byteLength > 255 * 4 * ELEMENTS);
    instance.runAll();
    const first = bench.output.slice();
    bench.reset();
    for (let turn = 0; turn < 3; turn++) {
      bench.clearOutput();
      instance.runAll();
      assert.deepEqual(bench.output, first);
    }
    bench.dispose();
    assert.equal(arena.allocate(64).start, 64);
  }
});

test("of a long call samples time a part and tell the whole", async () => {
  let units = 0;
  const instance = {
    extent: 10,
    run(lo: number, hi: number) {
      const end = performance.now() + 2 * (hi - lo);
      while (performance.now() < end) units += 0;
      units += hi - lo;
    },
    runAll: () => assert.fail("the whole call"),
  };
  const pacing = { rest: null, clock: () => performance.now() };
  const ns = await sampling(1, 0.2, pacing)({ instance, callMs: 20 })();
  assert.equal(units, 2);
  assert.ok(ns >= 19e6, `${ns}`);
});

test("bytes that are not those of the manifest fail at validate", async (t) => {
  const kernel = { ...tinyKernel("add", ELEMENTS), sha256: "0".repeat(64) };
  const { measurement } = await measured(t, kernel);
  assert.equal(measurement.outcome, "validate");
});

test("a failure leaves the inputs right for the next candidate", async (t) => {
  serveKernels(t);
  const instrument = wasmInstrument(
    cachedLoader(ORIGIN, new AbortController().signal),
    clockStepMs(),
  );
  const [trap, add] = [tinyKernel("trap", ELEMENTS), tinyKernel("add", ELEMENTS)];
  const bench = await instrument.open(tinyLease([trap, add], ELEMENTS), [trap, add]);
  assert.equal((await outcomeIn(bench, trap)).outcome, "run");
  assert.equal((await outcomeIn(bench, add)).outcome, "ok");
});

test("bytes that this engine cannot read are refused with what they require", async (t) => {
  t.mock.method(globalThis, "fetch", async () => new Response(new Uint8Array([1, 2, 3])));
  const sha256 = "039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81";
  const kernel = { ...tinyKernel("add", 4), sha256, requires: ["relaxed-simd"] };
  await assert.rejects(loadModule(ORIGIN, kernel), /relaxed-simd/);
});

test("integers are told as they are, and what is no number as the largest float32", () => {
  const lease = tinyLease([], ELEMENTS);
  const integers = Int32Array.from({ length: 9 }, (_, i) => i - 4);
  const places = sampledPositions(lease.seed, 9);
  assert.deepEqual(
    sampledEntries(lease, integers),
    places.map((i) => i - 4),
  );
  const odd = new Float32Array(9).fill(Number.NaN);
  assert.ok(sampledEntries(lease, odd).every((entry) => entry === Math.fround(3.4028235e38)));
  compare(odd, odd, 0);
  assert.throws(
    () =>
      compare(
        integers,
        Int32Array.from(integers, (i) => i + 1),
        0,
      ),
    /differs/,
  );
});
