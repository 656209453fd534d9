import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { bundles } from "../bundles.js";
import { KernelZoo, type KernelZooError } from "../src/sdk/index.js";
import { registerCommand } from "../src/sdk/names.js";
import type { KernelWire, Manifest } from "../src/wire/types.js";
import { bytesOf, type Tiny, tinyKernel } from "./kernels.js";

const ELEMENTS = 8;
const KEY = `add:f32:n${ELEMENTS}`;
const CLASS = "0123456789abcdef:r1-0:wasm+simd128";
const TINY: readonly Tiny[] = ["add", "subtract", "trap"];

function manifestOf(kernel: KernelWire, missing: string[] = []): Manifest {
  return {
    manifest: 1,
    set: KEY,
    device_classes: [CLASS],
    entries: [
      {
        workload: KEY,
        flops: ELEMENTS,
        wasm: {
          level: "exact",
          kernel,
          fallback: tinyKernel("add", ELEMENTS),
          state: "confirmed",
          version: 3,
          evidence: { ballots: 5, weight: 20, total_weight: 25, relative_time: 0.6 },
          timing: null,
        },
        webgpu: null,
        advice: { target: "wasm", basis: "none" },
      },
    ],
    missing,
  };
}

/** Serves kernels by content and `manifest` for everything else; answers what was asked for. */
function serve(t: TestContext, manifest: Response | Manifest): string[] {
  const asked: string[] = [];
  const bodies = new Map(TINY.map((name) => [tinyKernel(name, 1).url, bytesOf(name)]));
  t.mock.method(globalThis, "fetch", async (url: URL) => {
    asked.push(url.pathname);
    const body = bodies.get(url.pathname);
    if (body !== undefined) return new Response(body);
    return manifest instanceof Response ? manifest : Response.json(manifest);
  });
  return asked;
}

const open = (): Promise<KernelZoo> =>
  KernelZoo.open("http://zoo.test/somewhere", { deviceClass: CLASS });

test("a kernel runs on its inputs and says what it is", async (t) => {
  const asked = serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const kernel = await (await open()).kernel(KEY);
  kernel.inputs.a?.fill(2);
  const output = kernel.run({ b: new Array(ELEMENTS).fill(3) });
  assert.deepEqual([...output], new Array(ELEMENTS).fill(5));
  assert.equal(output, kernel.output);
  assert.deepEqual(kernel.shapes.c, [ELEMENTS]);
  assert.equal(kernel.info.level, "exact");
  assert.equal(kernel.info.evidence?.ballots, 5);
  assert.equal(kernel.info.fallbackReason, null);
  assert.equal(asked[0], `/v1/zoo/${KEY}/${CLASS}`);
});

test("best and fallback of a workload take one manifest request", async (t) => {
  const asked = serve(t, manifestOf(tinyKernel("subtract", ELEMENTS)));
  const zoo = await open();
  const [best, usual] = await Promise.all([zoo.kernel(KEY), zoo.kernel(KEY, { use: "fallback" })]);
  const inputs = { a: new Array(ELEMENTS).fill(5), b: new Array(ELEMENTS).fill(1) };
  assert.equal(best.run(inputs)[0], 4);
  assert.equal(usual.run(inputs)[0], 6);
  assert.equal(asked.filter((path) => path.startsWith("/v1/zoo")).length, 1);
});

test("verification finds a wrong kernel and leaves inputs and output alone", async (t) => {
  serve(t, manifestOf(tinyKernel("subtract", ELEMENTS)));
  const kernel = await (await open()).kernel(KEY);
  kernel.inputs.a?.fill(7);
  assert.equal((await kernel.verify()).ok, false);
  assert.equal(kernel.inputs.a?.[0], 7);
  assert.equal(kernel.output[0], 0);
});

test("verification passes the kernel that the fallback is", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const verification = await (await (await open()).kernel(KEY)).verify();
  assert.deepEqual([verification.ok, verification.maxError], [true, 0]);
});

test("a kernel that does not load is replaced by the default, with the reason", async (t) => {
  serve(t, manifestOf({ ...tinyKernel("subtract", ELEMENTS), sha256: "0".repeat(64) }));
  const kernel = await (await open()).kernel(KEY);
  assert.match(kernel.info.fallbackReason ?? "", /SHA-256/);
  assert.equal(kernel.info.sha256, tinyKernel("add", ELEMENTS).sha256);
});

test("a set comes in one request, by workload", async (t) => {
  const asked = serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const kernels = await (await open()).set("my-model");
  assert.deepEqual([...kernels.keys()], [KEY]);
  assert.equal(asked[0], `/v1/zoo/my-model/${CLASS}`);
});

test("while the zoo is away the browser's copy of the manifest serves", async (t) => {
  const manifest = manifestOf(tinyKernel("add", ELEMENTS));
  t.mock.method(globalThis, "fetch", async (url: URL, init: RequestInit) => {
    if (url.pathname.startsWith("/v1/artifacts")) return new Response(bytesOf("add"));
    if (init.cache !== "force-cache") throw new TypeError("fetch failed");
    return Response.json(manifest);
  });
  assert.equal((await (await open()).kernel(KEY)).info.level, "exact");
});

test("a zoo that is away and was never asked is an error that says so", async (t) => {
  t.mock.method(globalThis, "fetch", async () => {
    throw new TypeError("fetch failed");
  });
  await assert.rejects((await open()).kernel(KEY), /No answer from http:\/\/zoo.test/);
});

test("an unknown workload is an error that says how to register it", async (t) => {
  serve(t, Response.json({ detail: "not registered" }, { status: 404 }));
  await assert.rejects((await open()).kernel("matmul:f32:m384k768n768"), (error) => {
    assert.equal((error as KernelZooError).stage, "manifest");
    assert.match((error as KernelZooError).message, /kernelzoo tune matmul 384x768x768/);
    return true;
  });
});

test("a workload that is not compiled yet is an error that says so", async (t) => {
  serve(t, { ...manifestOf(tinyKernel("add", ELEMENTS)), entries: [], missing: [KEY] });
  await assert.rejects((await open()).kernel(KEY), /no kernel of it has been compiled/);
});

test("inputs of another length, traps and use after disposal are errors", async (t) => {
  serve(t, manifestOf(tinyKernel("trap", ELEMENTS)));
  const kernel = await (await open()).kernel(KEY);
  assert.throws(() => kernel.run({ a: [1, 2] }), /2 entries/);
  assert.throws(() => kernel.run({ z: [1] }), /no such input/);
  assert.throws(() => kernel.run(), /trapped/);
  kernel.dispose();
  assert.throws(() => kernel.run(), /disposed/);
});

test("a page without threads runs a kernel in its own thread, and says so", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const zoo = await KernelZoo.open("http://zoo.test", { deviceClass: CLASS, threads: 2 });
  const kernel = await zoo.kernel(KEY);
  const ones = new Array(ELEMENTS).fill(1);
  assert.equal((await kernel.runAsync({ a: ones, b: ones }))[0], 2);
  assert.equal(kernel.info.threads, 1);
  assert.notEqual(kernel.info.singleThreadReason, null);
});

test("one thread needs no reason", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const { info } = await (await open()).kernel(KEY);
  assert.deepEqual([info.threads, info.singleThreadReason], [1, null]);
});

test("the command that registers a workload follows from its key", () => {
  assert.equal(
    registerCommand("batch_matmul:f32:b12m384k384n64"),
    "kernelzoo tune batch_matmul 12x384x384x64",
  );
});

test("SDK, engine and probe are at most 20 kB gzip", async () => {
  const { outputFiles = [] } = await build({ ...bundles, write: false });
  const sdk = outputFiles.find(({ path }) => path.endsWith("/sdk.js"));
  assert.ok(sdk !== undefined);
  const size = gzipSync(sdk.contents, { level: 9 }).length;
  assert.ok(size <= 20_000, `${size} bytes`);
});
