import assert from "node:assert/strict";
import { test } from "node:test";
import type { Host } from "../src/model/host.js";
import type { Answered } from "../src/model/request.js";
import { chosen, isFasterOnGpu } from "../src/model/target-choice.js";
import type { ModelAnswer } from "../src/wire/model-answer.js";

/** A model that calls `wide` twice and `narrow` once, with what each was measured to take. */
function answer(
  times: Readonly<Record<string, number>>,
  missing: string[] = [],
  kernels = ["wide", "narrow"],
): ModelAnswer {
  const served = kernels.map((name) => {
    const best = times[name];
    return [name, { timing: best === undefined ? null : { best_ns: best, identities: 5 } }];
  });
  const calls = [0, 1, 0].map((kernel, i) => ({ kernel, tensors: [], label: `layer ${i}` }));
  const memory = { weights: 0, activations: 0 };
  const made = { plan: { kernels, calls, memory }, kernels: Object.fromEntries(served), missing };
  return made as unknown as ModelAnswer;
}

const WASM = answer({ wide: 100, narrow: 10 });

test("a model runs where its calls together were measured to take less time", () => {
  assert.equal(isFasterOnGpu(WASM, answer({ wide: 60, narrow: 90 })), false, "210 against 210");
  assert.equal(isFasterOnGpu(WASM, answer({ wide: 59, narrow: 90 })), true);
});

test("a call that was timed on one target alone counts as little as it takes", () => {
  assert.equal(isFasterOnGpu(WASM, answer({ wide: 50 })), true, "95 % of the time is known");
  assert.equal(isFasterOnGpu(WASM, answer({ narrow: 1 })), false, "5 % of it");
  assert.equal(isFasterOnGpu(answer({}), answer({ wide: 1, narrow: 1 })), false);
});

test("a GPU may have another plan of the model, whose calls have other kernels", () => {
  const keys = ["wide in f16", "narrow in f16"];
  const halved = (wide: number) => answer({ "wide in f16": wide, "narrow in f16": 5 }, [], keys);
  assert.equal(isFasterOnGpu(WASM, halved(50)), true);
  assert.equal(isFasterOnGpu(WASM, halved(150)), false);
});

test("a model beyond the addresses of WebAssembly runs on the GPU, measured or not", async () => {
  const asked = (made: ModelAnswer) => async (): Promise<Answered> => {
    return { answer: made, origin: "" };
  };
  const host = { gpu: { kind: "gpu", deviceClass: "gpu" }, forbidden: null } as unknown as Host;
  const sized = (weights: number, missing: string[] = []): ModelAnswer => {
    const made = answer({}, missing);
    return { ...made, plan: { ...made.plan, memory: { weights, activations: 64 } } };
  };
  const [fits, large] = [sized(2 ** 32 - 64), sized(2 ** 32)];
  assert.equal((await chosen(host, "auto", asked(fits), asked(sized(1)))).answer, fits);
  const gpu = sized(1);
  assert.equal((await chosen(host, "auto", asked(large), asked(gpu))).answer, gpu);
  const lacking = asked(sized(1, ["wide"]));
  assert.equal((await chosen(host, "auto", asked(large), lacking)).answer, large);
});

test("the zoo's times choose the target unless the page does, and the other one is spare", async () => {
  const asked = (made: ModelAnswer) => async (): Promise<Answered> => {
    return { answer: made, origin: "" };
  };
  const host = { gpu: { kind: "gpu", deviceClass: "gpu" }, forbidden: null } as unknown as Host;
  const fast = answer({ wide: 1, narrow: 1 });
  const slow = answer({ wide: 1000, narrow: 1 });
  const gpu = await chosen(host, "auto", asked(WASM), asked(fast));
  assert.equal(gpu.answer, fast);
  assert.equal((await gpu.spare?.())?.answer, WASM);
  assert.equal((await chosen(host, "auto", asked(WASM), asked(slow))).answer, WASM);
  assert.equal((await chosen(host, "webgpu", asked(WASM), asked(slow))).answer, slow);
  const unknown = async (): Promise<Answered> => Promise.reject(new Error("no such class"));
  assert.equal((await chosen(host, "auto", asked(WASM), unknown)).answer, WASM);
  const without = await chosen(host, "webgpu", asked(WASM), asked(answer({}, ["wide"])));
  assert.equal(without.answer, WASM);
  assert.equal(without.reason, "The zoo has no kernel of webgpu for wide yet.");
});
