import assert from "node:assert/strict";
import { test } from "node:test";
import { Lru } from "../src/measurer/kernel-cache.js";
import { pageHost, remoteTurns, turns } from "../src/measurer/turns.js";
import { gate } from "../src/timing/gate.js";

function recordingHost(log: string[]) {
  return {
    acquireTurn: async () => void log.push("acquire"),
    releaseTurn: async () => void log.push("release"),
  };
}

test("the lock of the profile is taken before the turn of the host", async () => {
  const log: string[] = [];
  const locks = {
    async request<T>(name: string, work: () => Promise<T>): Promise<T> {
      log.push(`lock ${name}`);
      const result = await work();
      log.push("unlock");
      return result;
    },
  };
  const withTurn = turns(locks, recordingHost(log));
  assert.equal(await withTurn(() => log.push("work") && "done"), "done");
  assert.deepEqual(log, ["lock kernelzoo-timing", "acquire", "work", "release", "unlock"]);
});

test("a turn is given back when the work fails", async () => {
  const log: string[] = [];
  const withTurn = turns(undefined, recordingHost(log));
  await assert.rejects(
    withTurn(() => {
      throw new Error("broken");
    }),
    /broken/,
  );
  assert.deepEqual(log, ["acquire", "release"]);
});

test("without lock and host, work runs at once", async () => {
  assert.equal(await turns(undefined, undefined)(() => 3), 3);
});

test("a worker waits for the page's answer to its request for a turn", async () => {
  const posted: string[] = [];
  const remote = remoteTurns(({ type }) => posted.push(type));
  const acquired = remote.turns.acquireTurn();
  remote.answered(null);
  await acquired;
  await remote.turns.releaseTurn();
  assert.deepEqual(posted, ["acquire-turn", "release-turn"]);
});

test("a host that fails is an error with its reason", async () => {
  const remote = remoteTurns(() => undefined);
  const acquired = remote.turns.acquireTurn();
  remote.answered("browser is closing");
  await assert.rejects(acquired, /browser is closing/);
});

test("a host lends turns only with both functions", () => {
  const acquireTurn = async () => undefined;
  assert.equal(pageHost({ acquireTurn }).turns, undefined);
  assert.notEqual(pageHost({ acquireTurn, releaseTurn: acquireTurn }).turns, undefined);
  assert.equal(pageHost({ operatorKey: "key" }).operatorKey, "key");
  assert.equal(pageHost(undefined).operatorKey, null);
});

test("a closed gate holds until it is opened", async () => {
  const barrier = gate();
  await barrier.pass();
  barrier.close();
  barrier.close();
  assert.equal(barrier.isOpen, false);
  let passed = false;
  const waiting = barrier.pass().then(() => {
    passed = true;
  });
  await Promise.resolve();
  assert.equal(passed, false);
  barrier.open();
  await waiting;
  await barrier.pass();
});

test("the least recently used entry goes first", () => {
  const kept = new Lru<string, number>(2);
  kept.set("a", 1);
  kept.set("b", 2);
  kept.get("a");
  kept.set("c", 3);
  assert.equal(kept.get("b"), undefined);
  assert.equal(kept.get("a"), 1);
});
