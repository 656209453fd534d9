import assert from "node:assert/strict";
import { test } from "node:test";
import { KernelZooError } from "../src/engine/error.js";
import { Targets } from "../src/language/targets.js";
import type { ModelAnswer } from "../src/runtime/answer.js";
import type { Host } from "../src/runtime/host.js";
import type { Answered } from "../src/runtime/request.js";

const WASM = "0123456789abcdef:r1-0:wasm+simd128";
const GPU = "0123456789abcdef:r101-0:webgpu";

/** An answer for a class of devices, with workloads that have no kernel. */
function answerOf(device_class: string, missing: readonly string[] = []): ModelAnswer {
  const plan = {
    tensors: [],
    kernels: ["product"],
    calls: [0, 0].map((kernel) => ({ kernel, tensors: [], label: "" })),
    memory: { weights: 8, activations: 64 },
    decoder: { step: 1, rows: 16, length: 24, vocabulary: 8, stop: [] },
  };
  return { name: "tiny", device_class, plan, kernels: {}, missing } as unknown as ModelAnswer;
}

/** A zoo that has these answers, by class, and what it was asked for. */
function zooWith(answers: Readonly<Record<string, ModelAnswer>>, told: Partial<Host> = {}) {
  const asked: string[] = [];
  const request = async ({ deviceClass }: Host): Promise<Answered> => {
    asked.push(deviceClass);
    const answer = answers[deviceClass];
    if (answer === undefined) throw new KernelZooError("network", `nothing for ${deviceClass}`);
    return { answer, origin: "http://zoo.test/" };
  };
  const host = {
    ...{ deviceClass: WASM, forbidden: null, backend: "webgpu", tools: { KernelZooError } },
    ...{ gpu: { kind: "gpu", deviceClass: GPU }, ...told },
  } as unknown as Host;
  return { asked, targets: new Targets(host, request, "tiny") };
}

test("a language model whose kernels for the GPU are missing runs on WebAssembly, and says why", async () => {
  const answers = { [GPU]: answerOf(GPU, ["product"]), [WASM]: answerOf(WASM) };
  const { asked, targets } = zooWith(answers);
  const { answer, reason, spare } = await targets.planned(24);
  assert.equal(answer.device_class, WASM);
  assert.match(reason ?? "", /^The zoo has no kernel of webgpu for product yet\./);
  assert.equal(spare, undefined);
  assert.notEqual(targets.sourceOf(answer), targets.sourceOf(answerOf(GPU)));
  await targets.planned(48);
  assert.deepEqual(asked, [GPU, WASM, WASM], "a larger context asks for no GPU");
});

test("a language model whose request for the GPU fails runs on WebAssembly, and says why", async () => {
  const { targets } = zooWith({ [WASM]: answerOf(WASM) });
  const { answer, reason } = await targets.planned(undefined);
  assert.deepEqual([answer.device_class, reason], [WASM, `nothing for ${GPU}`]);
});

test("what is wrong with the GPU's answer is told where there is none for WebAssembly", async () => {
  const missing = { [GPU]: answerOf(GPU, ["product"]), [WASM]: answerOf(WASM, ["product"]) };
  await assert.rejects(zooWith(missing).targets.planned(24), /kernel of webgpu for product/);
  const forbidden = zooWith({ [WASM]: answerOf(WASM) }, { forbidden: "It was asked for." });
  await assert.rejects(forbidden.targets.planned(24), /nothing for .*:webgpu/);
  assert.deepEqual(forbidden.asked, [GPU]);
});

test("a language model on the GPU is asked for on WebAssembly once that is lost", async () => {
  const { asked, targets } = zooWith({ [GPU]: answerOf(GPU), [WASM]: answerOf(WASM) });
  const { answer, reason, spare } = await targets.planned(24);
  assert.deepEqual([answer.device_class, reason], [GPU, undefined]);
  assert.equal((await spare?.())?.answer.device_class, WASM);
  assert.equal((await targets.planned(48)).answer.device_class, WASM);
  assert.deepEqual(asked, [GPU, WASM, WASM]);
});
