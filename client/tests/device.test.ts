import assert from "node:assert/strict";
import { test } from "node:test";
import { deviceClass, deviceId, engineFromText, plainText } from "../src/device/hardware.js";
import { memoryNotebook } from "../src/device/notebook.js";
import { byteDotsOf, wasmFeatures } from "../src/engine/features.js";

test("the device id is the one that Python computes", () => {
  // Hardware.device_id of kernelzoo/domain/device.py
  const plain = { logical_cores: 2, gpu_vendor: "nvidia", gpu_architecture: "ampere" };
  assert.equal(deviceId({ cpu_architecture: "x86-64", ...plain }), "11d4dadb3fadc2c1");
  const quoted = { logical_cores: 8, gpu_vendor: 'a"b', gpu_architecture: "c\\d" };
  assert.equal(deviceId({ cpu_architecture: "", ...quoted }), "c358e8d0dcea2382");
});

test("the features of a device class are sorted", () => {
  const text = deviceClass("0123456789abcdef", "r1-0", ["simd128", "relaxed-simd"]);
  assert.equal(text, "0123456789abcdef:r1-0:wasm+relaxed-simd+simd128");
});

test("a device class without features is one too", () => {
  assert.equal(deviceClass("0123456789abcdef", "r1-0", []), "0123456789abcdef:r1-0:wasm");
});

test("the features of this engine include 128-bit SIMD", () => {
  assert.ok(wasmFeatures().includes("simd128"));
});

/** The sum of the products of the probe's bytes; `pair` is what becomes of two of them. */
function sumOf(right: (byte: number) => number, pair = (sum: number): number => sum): number {
  return pair(2 * 127 * right(-1)) + pair(2 * -128 * right(-128));
}

test("what a dot product of bytes does is told by its sum", () => {
  const unsigned = (byte: number) => byte & 255;
  const within = (sum: number) => Math.max(-32_768, Math.min(32_767, sum));
  const wrapped = (sum: number) => (sum << 16) >> 16;
  const same = (byte: number) => byte;
  assert.deepEqual(byteDotsOf(sumOf(same)), ["dot-of-i8"]);
  assert.deepEqual(byteDotsOf(sumOf(unsigned)), ["dot-of-u8"]);
  for (const sum of [sumOf(unsigned, within), sumOf(same, within), sumOf(same, wrapped)]) {
    assert.deepEqual(byteDotsOf(sum), []);
  }
});

const AGENTS = [
  ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox", "140"],
  ["AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36", "Chromium", "156"],
  ["AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15", "Safari", "18.5"],
  ["curl/8", "", ""],
] as const;

for (const [text, name, version] of AGENTS) {
  test(`the engine of ${text.slice(-24)} is recorded as ${name || "unknown"}`, () => {
    assert.deepEqual(engineFromText(text), { name, version });
  });
}

test("text from the browser is cut to printable ASCII of 64 characters", () => {
  assert.equal(plainText("Radeon™\n"), "Radeon");
  assert.equal(plainText("x".repeat(99)).length, 64);
});

test("a notebook in memory starts from earlier notes", () => {
  const notebook = memoryNotebook({ identity: "i" });
  notebook.write("probe", "p");
  assert.equal(notebook.read("identity"), "i");
  assert.equal(notebook.read("probe"), "p");
  assert.equal(notebook.read("other"), null);
});
