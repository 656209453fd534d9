/** Kernels of a token, chosen by what the token takes, from times that were recorded. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { swapped } from "../src/tuning/kernel-swapper.js";
import type { Winner } from "../src/tuning/messages.js";
import { type Chosen, type Contested, chosenBySum, type Pair } from "../src/tuning/sum-choice.js";
import { searched } from "../src/tuning/webgpu/whole-times.js";

/** Nanoseconds alone, of the kernels of SmolLM-135M on an H200: the five fastest of each space. */
const ALONE: readonly Contested[] = [
  contested("swiglu", 30, [4_012, 4_031, 4_127, 4_222, 4_300]),
  contested("qkv", 30, [3_104, 3_181, 3_182, 3_231, 3_260]),
  contested("attention", 30, [5_945, 6_009, 6_109, 6_518, 7_900]),
  contested("down", 30, [3_272, 3_350, 3_384, 3_456, 3_500]),
  contested("output", 30, [2_886, 3_057, 3_081, 3_102, 3_120]),
  contested("head", 1, [12_910, 15_505, 15_660, 15_674, 16_300]),
];

function contested(workload: string, calls: number, ns: readonly number[]): Contested {
  return { workload, calls, alone: ns.map((each, i) => [`${workload}${i}`, each] as const) };
}

/** Waiting for the call before adds so much to each call: the same token took 0.673 ms there. */
const WAITING_NS = 930;

/** A token by its kernels alone, but for some that take another time in it. */
const tokenNs = (chosen: Chosen, inToken: Readonly<Record<string, number>>): number =>
  ALONE.reduce((sum, { workload, calls, alone }) => {
    const candidate = chosen.get(workload) as string;
    const own = new Map(alone).get(candidate) as number;
    return sum + calls * ((inToken[candidate] ?? own) + WAITING_NS);
  }, 0);

/** `noise` of a time by its number. */
function search(inToken: Readonly<Record<string, number>>, noise = (_: number): number => 1) {
  const tried: string[] = [];
  const choosing = chosenBySum(ALONE);
  let step = choosing.next();
  for (let time = 0; !step.done; ) {
    const { chosen, instead } = step.value;
    tried.push(
      ...[...instead].filter(([key, each]) => chosen.get(key) !== each).map(([, id]) => id),
    );
    const pairs = Array.from({ length: 5 }, (): Pair => {
      const timed = (choice: Chosen): number => tokenNs(choice, inToken) * noise(time++);
      return [timed(chosen), timed(instead)];
    });
    step = choosing.next(pairs);
  }
  return { chosen: step.value, tried };
}

test("the kernel with which a token takes least is chosen, not the fastest alone", () => {
  const alone = search({}).chosen;
  assert.deepEqual([...alone.values()].sort(), ALONE.map(({ workload }) => `${workload}0`).sort());
  // Weights that the cache had alone, and a longer text than the one at which it was timed.
  const inToken = { swiglu0: 5_100, swiglu1: 4_700, swiglu2: 4_200, attention0: 7_000 };
  const { chosen } = search(inToken);
  assert.equal(chosen.get("swiglu"), "swiglu2");
  assert.equal(chosen.get("attention"), "attention1");
  assert.equal(chosen.get("qkv"), "qkv0");
  assert.ok(tokenNs(chosen, inToken) < tokenNs(alone, inToken));
});

test("what takes most is tried first, and what is far behind alone not at all", () => {
  const { tried } = search({});
  assert.equal(tried[0], "attention1");
  assert.ok(!tried.includes("attention4"), "a third slower alone");
  assert.ok(tried.indexOf("swiglu1") < tried.indexOf("head1"));
  assert.ok(tried.length <= 4 * ALONE.length);
});

test("noise of five percent changes no kernel", () => {
  const wobble = (time: number): number => 1 + 0.05 * Math.sin(37 * time);
  assert.deepEqual(search({}, wobble).chosen, search({}).chosen);
});

test("a workload that nobody has timed alone keeps its kernel", () => {
  const choosing = chosenBySum([{ workload: "advance", calls: 1, alone: [] }]);
  assert.deepEqual(choosing.next(), { done: true, value: new Map() });
});

test("of kernels that are faster alone those run with which a token takes less", async () => {
  const founds = [
    ["swiglu", 0.95],
    ["attention", 0.9],
    ["head", 0.5],
  ] as const;
  const all = founds.map(([workload, relativeTime]) => ({ workload, relativeTime }) as Winner);
  const contested = all.map(({ workload, relativeTime }): Contested => {
    const alone = [["new", relativeTime] as const, ["before", 1] as const];
    return { workload, calls: 1, alone, runs: "before" };
  });
  const pairs = async ({ chosen, instead }: { chosen: Chosen; instead: Chosen }) => {
    // However much faster a kernel is alone, the token decides.
    const token = (choice: Chosen): number =>
      100 + ["attention", "head"].filter((key) => choice.get(key) === "new").length;
    return Array.from({ length: 5 }, (): Pair => [token(chosen), token(instead)]);
  };
  const ran: string[] = [];
  const refused = await swapped<Winner>(all, {
    prepared: async (found) => found,
    wrong: async () => null,
    inVain: async (ready) => {
      const { chosen } = await searched(chosenBySum(contested), pairs);
      return new Set(ready.filter(({ workload }) => chosen.get(workload) === "before"));
    },
    adopt: async (ready) => void ran.push(...ready.map(({ workload }) => workload)),
  });
  const vain = "The whole takes no less with it.";
  assert.deepEqual(refused, [null, vain, vain]);
  assert.deepEqual(ran, ["swiglu"]);
});
