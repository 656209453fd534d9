import assert from "node:assert/strict";
import { test } from "node:test";
import { isLoopback } from "../src/console/invite.js";
import { address, parseRoute } from "../src/console/route.js";
import { forTimes, fromZero } from "../src/console/scale.js";
import { ago, duration } from "../src/page/text.js";

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
