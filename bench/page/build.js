/** Builds dist/: a script for each page, with the client's own engine and timing inside. */
import { cpSync, rmSync } from "node:fs";
import { basename } from "node:path";
import { writePageScript } from "../../client/bundles.js";

process.chdir(import.meta.dirname);
rmSync("dist", { recursive: true, force: true });

const SCRIPTS = [
  "src/decode-wasm.ts",
  "src/decode-webgpu.ts",
  "src/frameworks.ts",
  "src/models/litert-session.ts",
  "src/models/models.ts",
  "src/models/onnxruntime-session.ts",
  "src/models/onnxruntime-webgpu-session.ts",
  "src/models/tensorflow-session.ts",
  "src/models-webgpu.ts",
  "src/onnxruntime-decoder.ts",
  "src/page.ts",
  "src/race.ts",
  "src/webgpu.ts",
];
await Promise.all(
  SCRIPTS.map((script) => writePageScript(script, `dist/${basename(script, ".ts")}.js`)),
);
for (const page of [
  "decode-wasm",
  "decode-webgpu",
  "index",
  "models",
  "models-webgpu",
  "race",
  "webgpu",
]) {
  cpSync(`${page}.html`, `dist/${page}.html`);
}
