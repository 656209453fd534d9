/**
 * Checks which kernels a page is given for the runs that it wants, against all that it could be
 * given.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { choose, totalMs, withChoice } from "../src/model/run-count-choice.js";
import type { ModelAnswer } from "../src/wire/model-answer.js";
import type { KernelWire, ServedKernel } from "../src/wire/types.js";
import { tinyKernel, tinyPackedKernel } from "./kernels.js";

type Costs = NonNullable<ServedKernel["costs"]>;
type Module = NonNullable<ModelAnswer["module"]>;

const MS = 1e6;
const costs = (compile: number, pack: number, first: number, run: number): Costs => ({
  compile_ns: compile * MS,
  optimise_ns: 0,
  pack_ns: pack * MS,
  first_run_ns: first * MS,
  run_ns: run * MS,
  identities: 5,
});

const named = (kernel: KernelWire, name: string): KernelWire => ({
  ...kernel,
  candidate: name,
  sha256: name,
});

const plain = (name: string): KernelWire => named(tinyKernel("add", 8), name);
const packed = (name: string): KernelWire => named(tinyPackedKernel(8), name);

interface Offered {
  readonly kernel: KernelWire;
  readonly costs: Costs;
}

const served = (own: Offered, ...others: Offered[]): ServedKernel =>
  ({
    ...{ tolerance: 0, level: "exact", fallback: own.kernel, state: "confirmed", version: 1 },
    ...{ evidence: null, timing: null, grounds: null, ...own },
    by_runs: others.map((each, i) => ({ runs: [1, 30][i] ?? 30, ...each })),
  }) as ServedKernel;

const moduleOf = (name: string, size_bytes: number, ...kernels: KernelWire[]): Module => {
  const parts = kernels.flatMap((kernel) => [kernel, ...kernel.layouts.map(({ pack }) => pack)]);
  const functions = Object.fromEntries(parts.map(({ sha256 }, i) => [sha256, `f${i}`]));
  return { url: `/${name}`, sha256: name, size_bytes, functions };
};

/** Two workloads; `a` is called three times, with two weights in all. */
function answerOf(a: ServedKernel, b: ServedKernel, module: Module | null, few: Module[]) {
  const weights = [0, 1].map((weight) => ({ dtype: "f32", shape: [8], weight }));
  const call = (kernel: number, weight: number) => ({
    kernel,
    tensors: [0, weight, 0],
    label: "",
  });
  return {
    plan: {
      tensors: [{ dtype: "f32", shape: [8], at: 0 }, ...weights],
      kernels: ["a", "b"],
      calls: [call(0, 1), call(0, 2), call(0, 2), call(1, 1)],
    },
    kernels: { a, b },
    module,
    modules_by_runs: few.map((each, i) => ({ runs: [1, 30][i], module: each })),
  } as unknown as ModelAnswer;
}

test("a total counts each weight that is packed once, and each call of each run", () => {
  const own = { kernel: packed("warm"), costs: costs(5, 7, 9, 2) };
  const other = { kernel: plain("b"), costs: costs(1, 0, 1, 1) };
  const module = moduleOf("m", 12_500, own.kernel, other.kernel);
  const answer = answerOf(served(own), served(other), module, []);
  const options = new Map([
    ["a", own],
    ["b", other],
  ]);
  const network = { bytesPerMs: 6_250, requestMs: 3 };
  const fetched = 3 + 2;
  // Two weights are packed; the first of 30 calls takes 9 instead of 2.
  const a = 5 + 2 * 7 + (9 - 2) + 10 * 3 * 2;
  const b = 1 + 10 * 1;
  assert.equal(totalMs(answer, options, module, 10, network), fetched + a + b);
});

/** Numbers that look drawn, the same each time. */
function* drawn(): Generator<number> {
  for (let x = 7; ; x = (x * 48_271) % 2_147_483_647) yield (x % 1_000) / 1_000;
}

test("of all kernels and modules the choice has the least total", () => {
  const numbers = drawn();
  const next = (most: number): number => (numbers.next().value as number) * most;
  let others = 0;
  for (let round = 0; round < 200; round++) {
    const offer = (name: string, packs: boolean): Offered => ({
      kernel: { ...(packs ? packed : plain)(name), size_bytes: Math.ceil(next(50_000)) },
      costs: costs(next(20), packs ? next(40) : 0, next(30), next(4)),
    });
    const [aWarm, aCold, aFew] = [offer("a0", true), offer("a1", false), offer("a2", true)];
    const [bWarm, bCold] = [offer("b0", true), offer("b1", false)];
    const answer = answerOf(
      served(aWarm, aCold, aFew),
      served(bWarm, bCold),
      round % 5 === 0 ? null : moduleOf("many", next(60_000), aWarm.kernel, bWarm.kernel),
      round % 5 === 0 ? [] : [moduleOf("one", next(60_000), aCold.kernel, bCold.kernel)],
    );
    const runs = 1 + Math.floor(next(40));
    const all = [answer.module, ...(answer.modules_by_runs ?? []).map(({ module }) => module)];
    const totals = all.flatMap((module) =>
      [aWarm, aCold, aFew].flatMap((a) =>
        [bWarm, bCold].map((b) => totalMs(answer, new Map(Object.entries({ a, b })), module, runs)),
      ),
    );
    const found = choose(answer, runs);
    assert.ok(Math.abs(found.totalMs - Math.min(...totals)) < 1e-9 * found.totalMs);
    others += Number(found.options.get("a")?.kernel !== aWarm.kernel);
  }
  assert.ok(others > 20, "else nothing was to choose");
});

test("weights follow the kernels that are chosen, and for many runs nothing changes", () => {
  const warm = { kernel: packed("warm"), costs: costs(5, 50, 9, 2) };
  const cold = { kernel: plain("cold"), costs: costs(5, 0, 9, 3) };
  const b = { kernel: plain("b"), costs: costs(1, 0, 1, 1) };
  const many = moduleOf("many", 1_000, warm.kernel, b.kernel);
  const one = moduleOf("one", 1_000, cold.kernel, b.kernel);
  const answer = answerOf(served(warm, cold), served(b), many, [one]);
  const chosen = withChoice(answer, choose(answer, 1));
  assert.deepEqual(chosen.kernels.a?.kernel.layouts, []);
  assert.equal(chosen.module, one);
  assert.deepEqual(chosen.kernels.a?.timing, { best_ns: 3 * MS, identities: 5 });
  assert.equal(chosen.kernels.b, answer.kernels.b);
  const unchanged = withChoice(answer, choose(answer, 10_000));
  assert.deepEqual(unchanged, answer);
});

test("a kernel whose costs nobody told is never given up", () => {
  const cold = { kernel: plain("cold"), costs: costs(0, 0, 0, 0) };
  const untold = { ...served({ kernel: packed("warm"), costs: costs(9, 9, 9, 9) }, cold) };
  const answer = answerOf({ ...untold, costs: null }, served(cold), null, []);
  assert.equal(choose(answer, 1).options.get("a")?.kernel.candidate, "warm");
});
