/** Checks how what a visitor lends is kept, counted, and shown as sent. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Allowance,
  DEFAULT_BUDGET,
  dayOf,
  leftMs,
  parseBudget,
  parseSpent,
  storedLending,
  unlimitedLending,
} from "../src/agent/budget.js";
import { obstacles } from "../src/agent/conditions.js";
import { mainPause, type Pause } from "../src/agent/pauses.js";
import { NOTHING_SENT, withSent } from "../src/agent/request-log.js";
import { memoryNotebook } from "../src/device/notebook.js";
import { turns } from "../src/measurer/turns.js";

test("a note that is none of ours is the default budget", () => {
  const notes = [null, "", "[]", "null", '{"minutes":-1}', '{"minutes":1e9}', '{"minutes":"9"}'];
  for (const note of notes) assert.deepEqual(parseBudget(note), DEFAULT_BUDGET);
  const chosen = { minutes: 5, intensity: "gentle" } as const;
  assert.deepEqual(parseBudget(JSON.stringify(chosen)), chosen);
});

test("what was spent yesterday counts no more", () => {
  const note = JSON.stringify({ day: "2026-11-20", ms: 900_000 });
  assert.equal(parseSpent(note, "2026-11-20").ms, 900_000);
  assert.equal(parseSpent(note, "2026-11-21").ms, 0);
  assert.equal(dayOf(new Date(2026, 0, 5, 23, 59)), "2026-01-05");
});

test("a budget is never overdrawn, and a driven browser has no end of it", () => {
  const spent = { day: "d", ms: 10 * 3_600_000 };
  assert.equal(leftMs({ minutes: 15, intensity: "full" }, spent), 0);
  assert.equal(leftMs(unlimitedLending().budget, spent), Number.POSITIVE_INFINITY);
});

test("two tabs of a browser spend one budget", () => {
  const notebook = memoryNotebook();
  const [one, other] = [storedLending(notebook), storedLending(notebook)];
  one.choose({ minutes: 1, intensity: "gentle" });
  one.spend(20_000);
  other.spend(30_000);
  assert.deepEqual(one.allowed, { leftMs: 10_000, share: 0.25 });
});

test("time in turns is counted, and rest follows it as the share says", async () => {
  let clock = 0;
  const rests: number[] = [];
  const told: number[] = [];
  const allowance = new Allowance(
    { leftMs: 250, share: 0.25 },
    {
      sleep: async (ms) => void rests.push(ms),
      spent: (ms) => void told.push(ms),
      clock: () => clock,
    },
  );
  const withTurn = allowance.counted(turns(undefined, undefined));
  const answer = await withTurn(() => {
    clock += 100;
    return "measured";
  });
  assert.equal(answer, "measured");
  assert.deepEqual([told, rests, allowance.isLeft], [[100], [300], true]);
  await assert.rejects(
    withTurn(() => {
      clock += 200;
      throw new Error("trap");
    }),
  );
  assert.deepEqual([told, allowance.isLeft], [[100, 200], false], "a failure costs its time");
  allowance.allow({ leftMs: 1, share: 1 });
  await withTurn(() => undefined);
  assert.equal(rests.length, 2, "with all of the time there is no rest");
});

test("of several reasons to pause, the visitor's own is told", () => {
  assert.equal(mainPause(new Set<Pause>(["budget", "hidden", "hand"])), "hand");
  assert.equal(mainPause(new Set<Pause>(["budget"])), "budget");
  assert.equal(mainPause(new Set<Pause>()), null);
});

test("requests are kept as they went out, the newest first, and the oldest forgotten", () => {
  const request = (n: number) => ({ method: "POST", path: "/v1/leases", body: `{"n":${n}}` });
  let log = NOTHING_SENT;
  for (let n = 0; n < 60; n++) log = withSent(log, request(n), new Date(0));
  assert.equal(log.requests[0]?.body, '{"n":59}');
  assert.deepEqual([log.requests.length, log.count, log.bytes], [50, 60, 10 * 7 + 50 * 8]);
});

test("a browser without SIMD is turned away, one without a fine clock is told so", () => {
  const fine = { simd: true, secure: true, isolated: true };
  assert.deepEqual(obstacles(fine), []);
  assert.deepEqual(obstacles({ ...fine, simd: false }), [{ id: "no-simd", blocks: true }]);
  assert.deepEqual(obstacles({ ...fine, secure: false, isolated: false }), [
    { id: "insecure", blocks: false },
  ]);
  assert.deepEqual(obstacles({ ...fine, isolated: false }), [
    { id: "not-isolated", blocks: false },
  ]);
});
