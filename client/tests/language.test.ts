import assert from "node:assert/strict";
import { mock, type TestContext, test } from "node:test";
import type { Stored } from "../src/executor/golden-tensors.js";
import { readOrder } from "../src/language/decode-order.js";
import { LanguageModel } from "../src/language/language-model.js";
import { inputFault } from "../src/language/source.js";
import { Targets } from "../src/language/target-choice.js";
import type { Host } from "../src/model/host.js";
import { Listeners } from "../src/model/listeners.js";
import type { Opened, Opener } from "../src/model/opener.js";
import type { ModelAnswer, PlanWire } from "../src/wire/model-answer.js";

const WASM = "0123456789abcdef:r1-0:wasm+simd128";
const GPU = "0123456789abcdef:r101-0:webgpu";

/** An answer for a class of devices, with workloads that have no kernel. */
function answerOf(
  device_class: string,
  missing: readonly string[] = [],
  times: readonly (number | null)[] = [null, null],
): ModelAnswer {
  const names = ["block's", "product"];
  const served = names.map((name, i) => {
    const best_ns = times[i] ?? null;
    return [name, { timing: best_ns === null ? null : { best_ns } }] as const;
  });
  const plan = {
    needs: ["states"],
    tensors: [],
    kernels: names,
    calls: [0, 1].map((kernel) => ({ kernel, tensors: [], label: "" })),
    memory: { weights: 8, activations: 64 },
    decoder: { step: 1, rows: 16, length: 24, vocabulary: 8, stop: [] },
  };
  const kernels = Object.fromEntries(served);
  return { model: 1, name: "tiny", device_class, plan, kernels, missing } as unknown as ModelAnswer;
}

const gpuOf = (isSoftware: boolean) => {
  return { kind: "gpu", deviceClass: GPU, owner: { device: async () => ({ isSoftware }) } };
};

type Answering = (deviceClass: string) => ModelAnswer | undefined;

/** The answers of zoos, by their hosts. */
const ZOOS = new Map<string, Answering>();

mock.method(globalThis, "fetch", async (url: URL) => {
  const deviceClass = decodeURIComponent(url.pathname.split("/").at(-1) ?? "");
  const answer = ZOOS.get(url.host)?.(deviceClass);
  return answer
    ? Response.json(answer)
    : Response.json({ detail: `nothing for ${deviceClass}` }, { status: 400 });
});

/** A zoo that has these answers, by class, and what it was asked for. */
function zooWith(answers: Readonly<Record<string, ModelAnswer>>, told: Partial<Host> = {}) {
  const asked: string[] = [];
  const origin = new URL(`http://zoo${ZOOS.size}.test/`);
  ZOOS.set(origin.host, (deviceClass) => {
    asked.push(deviceClass);
    return answers[deviceClass];
  });
  const host = {
    ...{
      deviceClass: WASM,
      forbidden: null,
      backend: "webgpu",
      origin,
      pins: null,
      hardware: null,
    },
    ...{ maxAgeMs: null, gpu: gpuOf(false), deadline: () => AbortSignal.timeout(1000), ...told },
  } as unknown as Host;
  const waiting = { progress: () => undefined, signal: undefined };
  return { asked, targets: new Targets(host, "tiny", waiting) };
}

test("a language model whose kernels for the GPU are missing runs on WebAssembly, and says why", async () => {
  const answers = { [GPU]: answerOf(GPU, ["product"]), [WASM]: answerOf(WASM) };
  const { asked, targets } = zooWith(answers);
  const { answer, reason, spare } = await targets.planned(24);
  assert.equal(answer.device_class, WASM);
  assert.match(
    reason ?? "",
    /^The zoo has no kernel of webgpu for product, which tiny needs, and compiles none\./,
  );
  assert.equal(spare, undefined);
  await targets.planned(48);
  assert.deepEqual(asked, [GPU, WASM, WASM], "a larger context asks for no GPU");
});

test("a language model whose request for the GPU fails runs on WebAssembly, and says why", async () => {
  const { targets } = zooWith({ [WASM]: answerOf(WASM) });
  const { answer, reason } = await targets.planned(undefined);
  assert.equal(answer.device_class, WASM);
  assert.match(reason ?? "", new RegExp(`answered 400: nothing for ${GPU}$`));
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

test("a page that leaves the choice to the zoo uses the GPU unless it was measured to be slower", async () => {
  const chosen = async (onGpu: readonly (number | null)[], onWasm: readonly (number | null)[]) => {
    const answers = { [GPU]: answerOf(GPU, [], onGpu), [WASM]: answerOf(WASM, [], onWasm) };
    const { targets } = zooWith(answers, { backend: "auto" });
    return (await targets.planned(24)).answer.device_class;
  };
  assert.equal(await chosen([null, null], [1, 1]), GPU);
  assert.equal(await chosen([9, 9], [null, 1]), GPU, "not all is known");
  assert.equal(await chosen([100, 10], [100, 9]), WASM);
  assert.equal(await chosen([100, 10], [1, 20]), GPU, "16 tokens count for one block");
});

test("a processor that plays a GPU is used where a page asks for it, or there is nothing else", async () => {
  const gpu = gpuOf(true) as unknown as Host["gpu"];
  const both = { [GPU]: answerOf(GPU), [WASM]: answerOf(WASM) };
  const { asked, targets } = zooWith(both, { gpu, backend: "auto" });
  const { answer, reason } = await targets.planned(24);
  assert.equal(answer.device_class, WASM);
  assert.match(reason ?? "", /a processor plays it/);
  await targets.planned(48);
  assert.deepEqual(asked, [WASM, GPU, WASM]);
  for (const [answers, backend] of [
    [both, "webgpu"],
    [{ [GPU]: answerOf(GPU) }, "auto"],
  ] as const) {
    const found = await zooWith(answers, { gpu, backend }).targets.planned(24);
    assert.equal(found.answer.device_class, GPU);
  }
});

/**
 * A model whose worker takes so long for a token, and for each of its runs how many tokens were asked
 * for and how many runs were under way then.
 */
function modelThatTakes(msPerToken: number, t: TestContext) {
  let [clock, underWay] = [0, 0];
  t.mock.method(performance, "now", () => clock);
  const asked: number[] = [];
  const runs: number[] = [];
  let before: Promise<unknown> = Promise.resolve();
  const run = (feeds: readonly Stored[]) => {
    const { tokens } = readOrder(feeds);
    asked.push(tokens);
    runs.push(++underWay);
    const ran = before.then(async () => {
      // The page reads what came before in the meantime.
      await new Promise((resolve) => setImmediate(resolve));
      clock += tokens * msPerToken;
      underWay -= 1;
      return { outputs: [new Int32Array(tokens).fill(3)] };
    });
    before = ran;
    return ran;
  };
  const answer = answerOf(GPU);
  const plan = {
    ...{ ...answer.plan, weights: [] },
    decoder: { ...answer.plan.decoder, length: 100, stop: [] },
  };
  const opener = { answer: { ...answer, plan }, host: { gpu: { kind: "none" } } };
  const opened = { session: { run }, loaded: { memoryBytes: 0, threads: 1 } };
  const larger = {
    contexts: [],
    planned: () => Promise.reject(new Error("there is none")),
    dispose: () => undefined,
  };
  const model = new LanguageModel(
    opener as unknown as Opener,
    opened as unknown as Opened,
    larger,
    { signal: undefined },
    new Listeners(),
  );
  return { asked, runs, model };
}

test("as many tokens are fetched together as take 8 ms, while the next ones compute", async (t) => {
  for (const [msPerToken, interval] of [
    [20, 1],
    [1, 8],
    [0.25, 16],
  ] as const) {
    const { asked, runs, model } = modelThatTakes(msPerToken, t);
    let tokens = 0;
    for await (const _ of model.generate([1, 2], { maxTokens: 60 })) tokens += 1;
    const known = asked.slice(4, -1);
    assert.deepEqual(asked.slice(0, 4), [1, 1, 1, 1], "nothing is known of the first");
    assert.ok(known.length > 1);
    assert.deepEqual(new Set(known), new Set([interval]));
    assert.equal(tokens, 60);
    assert.equal(Math.max(...runs), 3);
    assert.equal(model.stats().msPerToken, msPerToken);
    t.mock.restoreAll();
  }
});

test("an interval that the page asks for is kept from the first fetch behind the prompt on", async (t) => {
  const { asked, runs, model } = modelThatTakes(1, t);
  for await (const _ of model.generate([1, 2], { maxTokens: 11, interval: 4 }));
  assert.deepEqual(asked, [1, 4, 4, 2]);
  assert.deepEqual(runs, [1, 2, 3, 3]);
});

for (const [vocabulary, shape, told] of [
  [8, [4], "undefined is no token of bart's encoder; they are 0 to 7."],
  [0, [1, 3], "The spectrogram has undefined; give finite numbers."],
] as const) {
  test(`an input with an entry that is not there is refused: ${told}`, () => {
    const encoder = { source: 0, length: 4, vocabulary };
    const plan = { decoder: { encoder }, inputs: [{ tensor: 0, shape }] } as unknown as PlanWire;
    const input = [1, undefined, 2] as unknown as number[];
    assert.equal(inputFault(plan, "bart", input), told);
    assert.equal(inputFault(plan, "bart", [1, 0, 2]), null);
  });
}
