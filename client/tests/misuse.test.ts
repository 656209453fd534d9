/**
 * Checks that what a page gets wrong, or the lack of a page, becomes a KernelZooError that says
 * what to do.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pageArena } from "../src/engine/arena.js";
import { reserve } from "../src/model/memory-budget.js";
import {
  type GraphOptions,
  KernelZoo,
  KernelZooError,
  type LanguageOptions,
  type ModelOptions,
  type OpenOptions,
} from "../src/sdk/index.js";
import { noRoom } from "../src/sdk/refusals.js";
import type { ConstantOptions, KernelOptions } from "../src/sdk/zoo.js";
import { tinyKernel } from "./kernels.js";
import { CLASS, ELEMENTS, filled, KEY, manifestOf, open, serve } from "./zoo.js";

const told = (pattern: RegExp) => (thrown: unknown) => {
  assert.ok(thrown instanceof KernelZooError, String(thrown));
  assert.match(thrown.message, pattern);
  return true;
};

test("Node, which has no workers, runs kernels and says that models run in pages", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const zoo = await open();
  assert.equal((await zoo.kernel(KEY)).run({ a: filled(1), b: filled(2) })[0], 3);
  for (const opening of [
    () => zoo.model("network"),
    () => zoo.languageModel("language"),
    () => zoo.loadGraph("kept"),
  ]) {
    await assert.rejects(opening(), told(/^Models run in workers: open them in a page/));
  }
});

test("a device that tells nothing of itself is described", async (t) => {
  const navigator = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  t.after(() => navigator && Object.defineProperty(globalThis, "navigator", navigator));
  Reflect.deleteProperty(globalThis, "navigator");
  const asked = serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  await (await KernelZoo.open("http://zoo.test")).kernel(KEY);
  assert.match(asked[0] ?? "", /^\/v1\/zoo\/add:f32:n8\/[0-9a-f]{16}:r3-[01]+:wasm/);
});

test("what is no address is a KernelZooError", async () => {
  for (const address of ["not a url", "", undefined, {}, "javascript:1", "data:,x"]) {
    const opening = KernelZoo.open(address as string);
    await assert.rejects(opening, told(/is no URL; write https:\/\/zoo.example/));
  }
});

test("a misspelt option is refused with the name that is nearest", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const zoo = await open();
  const refusals: [() => Promise<unknown>, RegExp][] = [
    [
      () => KernelZoo.open("http://zoo.test", { thread: 2 } as OpenOptions),
      /^thread is not known to KernelZoo.open; threads may be meant/,
    ],
    [
      () => zoo.kernel(KEY, { Verify: true } as KernelOptions),
      /^Verify is not known to zoo.kernel; verify may be meant/,
    ],
    [
      () => zoo.set("shop", { colour: 1 } as KernelOptions),
      /^colour is not known to zoo.set; leave it out/,
    ],
    [
      () => zoo.model("network", { onprogress: 1 } as ModelOptions),
      /^onprogress is not known to zoo.model; onProgress may be meant/,
    ],
    [
      () => zoo.model("network", { contextLength: 8 } as ModelOptions),
      /^contextLength is not known to zoo.model; leave it out/,
    ],
    [
      () => zoo.languageModel("language", { contextlength: 8 } as LanguageOptions),
      /^contextlength is not known to zoo.languageModel; contextLength may be meant/,
    ],
  ];
  for (const [ask, pattern] of refusals) await assert.rejects(ask(), told(pattern));
});

test("options, names and keys of another type are refused in a sentence", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const zoo = await open();
  const opened = (options: unknown) => KernelZoo.open("http://zoo.test", options as OpenOptions);
  const refusals: [() => Promise<unknown>, RegExp][] = [
    [() => opened(null), /^KernelZoo.open takes options as an object, not null/],
    [() => opened(7), /^KernelZoo.open takes options as an object, not 7/],
    [() => opened({ keys: "abc" }), /^keys is to be a list of keys, not abc/],
    [
      () => opened({ backend: "gpu" }),
      /^backend is to be one of auto, wasm, webgpu, javascript; "gpu" was/,
    ],
    [() => zoo.kernel(null as never), /^zoo.kernel takes a name, not "null"/],
    [() => zoo.set(7 as never), /^zoo.set takes a name, not "7"/],
    [() => zoo.model({} as never), /^zoo.model takes a name, not "\[object Object\]"/],
    [() => zoo.languageModel("" as never), /^zoo.languageModel takes a name, not ""/],
    [() => zoo.loadGraph(7 as never), /^zoo.loadGraph takes a name, not "7"/],
  ];
  for (const [ask, pattern] of refusals) await assert.rejects(ask(), told(pattern));
});

/** Values that options may not have. Each is refused in one sentence, before anything is asked for. */
const UNFIT: Readonly<Record<string, readonly unknown[]>> = {
  timeoutMs: [-1, 0, Number.NaN, Number.POSITIVE_INFINITY, "10", null],
  maxAgeMs: [-1, Number.NaN, "7"],
  deviceClass: ["x", "", 7, null, "0123456789abcdef:wasm"],
  bundle: ["", 7],
  device: ["gpu", null],
  backend: ["gpu", "WASM", null],
  use: ["worst", true],
  verify: ["yes", 1],
  buffers: ["b", null],
  constant: [null, 7],
  onProgress: ["log", {}],
  signal: [{}, null, 5000],
  memoryBytes: [-1, 0, Number.NaN, "1e9"],
  check: ["maybe", "true", 1, null],
  tune: ["always", true, "Idle"],
  budgetMs: [-1, "60000"],
  contribute: ["yes", {}, { application: "" }, null],
  dimensions: [{ sequence: "128" }, { sequence: null }, 128, null],
  runs: [0, -3, "1"],
  weights: ["weights.bin", new Uint8Array(8), null],
  contextLength: [0, "2048"],
  save: ["", true, null],
};

test("values that options may not have are refused in a sentence with what they may be", async (t) => {
  const asked = serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const zoo = await open();
  const takers: readonly [string, (options: object) => Promise<unknown>][] = [
    [
      "timeoutMs maxAgeMs deviceClass bundle device backend signal",
      (options) => KernelZoo.open("http://zoo.test", options),
    ],
    ["use verify buffers constant", (options) => zoo.kernel(KEY, options)],
    ["use verify buffers", (options) => zoo.set("shop", options)],
    ["onProgress signal memoryBytes", (options) => zoo.loadGraph("kept", options)],
    [
      "onProgress signal memoryBytes check tune budgetMs contribute dimensions backend save runs weights",
      (options) => zoo.model("network", options),
    ],
    [
      "onProgress signal memoryBytes check tune budgetMs contribute contextLength save",
      (options) => zoo.languageModel("language", options),
    ],
  ];
  for (const [names, ask] of takers) {
    for (const name of names.split(" ")) {
      assert.ok(UNFIT[name]?.length, name);
      for (const value of UNFIT[name] ?? []) {
        const pattern = new RegExp(`^${name} is to be [^;]{8,}; .+ was given\\.$`);
        await assert.rejects(ask({ [name]: value }), told(pattern), `${name}: ${value}`);
      }
    }
  }
  assert.deepEqual(asked, []);
});

test("every option that the types name is known", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const all = <Options>(names: Readonly<Record<keyof Options, undefined>>): Options =>
    names as Options;
  const graphs = { onProgress: undefined, signal: undefined, memoryBytes: undefined };
  const tuned = { tune: undefined, budgetMs: undefined, contribute: undefined };
  const zoo = await KernelZoo.open("http://zoo.test", {
    ...all<OpenOptions>({
      ...{ keys: undefined, maxAgeMs: undefined, bundle: undefined, deviceClass: undefined },
      ...{ threads: undefined, backend: undefined, device: undefined, timeoutMs: undefined },
      signal: undefined,
    }),
    deviceClass: CLASS,
  });
  const kernels = { use: undefined, buffers: undefined, verify: undefined };
  await zoo.kernel(KEY, all<ConstantOptions<never>>({ ...kernels, constant: undefined }));
  const noWorkers = told(/^Models run in workers/);
  const ofModels = { ...graphs, ...tuned, check: undefined };
  const model = all<ModelOptions>({
    ...{ ...ofModels, dimensions: undefined, backend: undefined, save: undefined, runs: undefined },
    weights: undefined,
    precision: undefined,
    maxError: undefined,
  });
  await assert.rejects(zoo.model("network", model), noWorkers);
  const language = all<LanguageOptions>({
    ...{ ...ofModels, contextLength: undefined, save: undefined },
  });
  await assert.rejects(zoo.languageModel("language", language), noWorkers);
  await assert.rejects(zoo.loadGraph("kept", all<GraphOptions>(graphs)), noWorkers);
});

test("zoos of one page share their memory, however many are opened", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const arena = pageArena();
  const outputs: number[] = [];
  for (let n = 0; n < 100; n++) {
    const zoo = await open();
    const kernel = await zoo.kernel(KEY);
    outputs.push(kernel.run({ a: filled(n), b: filled(1) })[0] ?? 0);
    kernel.dispose();
    zoo.dispose();
  }
  assert.deepEqual(
    outputs,
    outputs.map((_, n) => n + 1),
  );
  assert.equal(pageArena(), arena);
  assert.ok(arena.memory.buffer.byteLength <= 2 * 65_536, "blocks are lent again");
});

test("memory that is more than spent is none that is left", () => {
  assert.equal(reserve({}, "large", 2 ** 30, 2 ** 31), null);
  const lack = reserve({}, "other", 2 ** 20, 2 ** 29);
  const reason = lack && noRoom("other", 2 ** 20, lack, "wasm");
  assert.equal(reason, "other takes 1 MiB; 0 MiB are left. Dispose of large (1024 MiB).");
});
