import assert from "node:assert/strict";
import { test } from "node:test";
import { forTimes, fromZero } from "../src/console/chart.js";
import { isLoopback } from "../src/console/invite.js";
import { jobState } from "../src/console/jobs.js";
import { offsetOf } from "../src/console/pager.js";
import { deviceName } from "../src/console/pieces.js";
import { fasterSettings, PRIMITIVES } from "../src/console/rho.js";
import { address, parseRoute } from "../src/console/route.js";
import { searchQuery } from "../src/console/search.js";
import { ago, duration } from "../src/page/text.js";
import { GPU_PRIMITIVES as gpuPrimitives } from "../src/probe/gpu-modules.js";
import { GPU_SUITE } from "../src/probe/gpu-probe.js";
import { SUITE, PRIMITIVES as wasmPrimitives } from "../src/probe/modules.js";
import type { Job } from "../src/wire/types.js";

test("an address and its view are each other's", () => {
  const path = ["matmul+bias:f32:m8k8n8", "e5d2:r2-010:wasm+simd128"];
  const query = { workload: "a&b=c", device: "x86 64" };
  const expected = { view: "zoo", path, query };
  assert.deepEqual(parseRoute(address("zoo", path, query)), expected);
});

test("no address is the overview, and an unknown one is none", () => {
  assert.equal(parseRoute("")?.view, "overview");
  assert.equal(parseRoute("#/")?.view, "overview");
  assert.equal(parseRoute("#/nowhere"), null);
  assert.deepEqual(parseRoute("#/zoo/%E0%A4%A/x")?.path, ["%E0%A4%A", "x"]);
});

test("what was not asked for is not in the address", () => {
  assert.equal(address("zoo", [], { workload: "", device: "x86" }), "#/zoo?device=x86");
});

test("ticks are round and reach what is drawn", () => {
  assert.deepEqual(fromZero(8.9, 0, 1).ticks, [0, 5, 10]);
  assert.deepEqual(fromZero(0.37, 0, 1).ticks, [0, 0.1, 0.2, 0.3, 0.4]);
  const exact = fromZero(33, 0, 66, { about: 6, round: false });
  assert.deepEqual(exact.ticks, [0, 10, 20, 30]);
  assert.equal(exact.at(33), 66);
  assert.deepEqual(fromZero(0, 0, 1).ticks[0], 0);
});

test("times that lie far apart are told apart, by factors", () => {
  assert.deepEqual(forTimes(30, 200, 0, 1).ticks, [0, 50, 100, 150, 200]);
  const far = forTimes(42e3, 1.3e6, 240, 0);
  assert.deepEqual(far.ticks, [2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6]);
  assert.deepEqual(
    [far.at(2e4), far.at(2e5), far.at(2e6)].map((at) => Math.round(at) + 0),
    [240, 120, 0],
  );
  assert.deepEqual(forTimes(3, 40_000, 0, 1).ticks, [1, 10, 100, 1000, 10_000, 100_000]);
});

test("a loopback address is of no use to a phone", () => {
  assert.ok(["localhost", "zoo.localhost", "127.0.0.1", "127.1.2.3", "[::1]"].every(isLoopback));
  assert.ok(!["zoo.example", "192.168.0.10", "127.example"].some(isLoopback));
});

test("times have the unit that suits them", () => {
  assert.deepEqual([950, 27_302, 2_590_000, 3e9, null].map(duration), [
    "950 ns",
    "27.3 µs",
    "2.59 ms",
    "3 s",
    "–",
  ]);
  const now = Date.parse("2026-11-21T12:00:00Z");
  assert.equal(ago("2026-11-21T11:59:30+00:00", now), "just now");
  assert.equal(ago("2026-11-21T09:00:00+00:00", now), "3 h ago");
  assert.equal(ago("2026-11-19T09:00:00+00:00", now), "2026-11-19");
});

const JOB: Job = {
  job: 1,
  workload: "relu:f32:n64",
  target: "wasm",
  space: "",
  state: "planned",
  flops: 64,
  candidates: 3,
  compiled: 2,
  failed: 1,
  compile_ms_median: null,
  compile_ms_last: null,
  measurements: 0,
  agents: 0,
  ballots: 0,
  best_ns: null,
  skipped_by: [],
  entries: 0,
  final: 0,
  detail: "",
};

test("a job says that it is done once the votes of all its classes are final, and not before", () => {
  const state = (changed: Partial<Job>): string => jobState({ ...JOB, ...changed });
  assert.equal(state({ skipped_by: ["a:b:webgpu"] }), "skipped by a:b:webgpu: two devices lost");
  assert.equal(state({ state: "waiting" }), "waiting");
  assert.equal(state({ compiled: 1 }), "compiling");
  assert.equal(state({}), "waiting for agents");
  assert.equal(state({ measurements: 5 }), "measuring");
  assert.equal(state({ measurements: 9, entries: 2, final: 1 }), "voting");
  assert.equal(state({ measurements: 9, entries: 2, final: 2 }), "done");
  assert.equal(state({ state: "failed", detail: "no space" }), "failed: no space");
  assert.equal(state({ state: "cancelled", measurements: 9, entries: 2, final: 1 }), "cancelled");
});

test("a device whose browser tells no processor is named by its browser", () => {
  const hardware = { cpu_architecture: "", logical_cores: 8, gpu_vendor: "", gpu_architecture: "" };
  const named = (device_class: string, engines: readonly string[]): string =>
    deviceName({ device_class, hardware, engines });
  assert.equal(
    named("d:r3-011:wasm+simd128", ["Firefox 153", "Firefox 152"]),
    "unknown processor in Firefox 153, 8 cores",
  );
  assert.equal(named("d:r102-00000:webgpu", ["Safari 26"]), "unknown GPU in Safari 26");
  assert.equal(named("d:r3-011:wasm", []), "unknown processor, 8 cores");
  const told = { ...hardware, cpu_architecture: "x86-64" };
  assert.equal(
    deviceName({ device_class: "d:r3-0:wasm", hardware: told, engines: ["Chromium 156"] }),
    "x86-64, 8 cores",
  );
});

test("bits of ρ have the names of the suites that agents run", () => {
  assert.deepEqual(
    PRIMITIVES[`r${SUITE}`],
    wasmPrimitives.map(({ primitive }) => primitive),
  );
  assert.deepEqual(
    PRIMITIVES[`r${GPU_SUITE}`],
    gpuPrimitives.map(({ primitive }) => primitive),
  );
  assert.deepEqual(fasterSettings("r3-011"), ["load_splat", "pack"]);
  assert.deepEqual(fasterSettings("r3-000"), []);
  assert.equal(fasterSettings("r2-011"), null);
  assert.equal(fasterSettings("r3-0111"), null);
});

test("the zoo is asked for a state and a target only where they are known", () => {
  const filters = [{ name: "entry", title: "State", choices: ["confirmed", "provisional"] }];
  const asked = (query: Record<string, string>): string => searchQuery(query, filters).toString();
  assert.equal(
    asked({ entry: "confirmed", device: "x86" }),
    "workload=&device=x86&entry=confirmed",
  );
  assert.equal(asked({ entry: "retired" }), "workload=&device=");
});

test("a page of a list begins where its address says", () => {
  assert.deepEqual(
    ["", "50", "-3", "x", "7.9"].map((offset) => offsetOf({ offset })),
    [0, 50, 0, 0, 7],
  );
});
