/** Builds dist/: a script for each page, with the client's own engine and timing inside. */
import { cpSync, rmSync } from "node:fs";
import { build } from "esbuild";
import { inlineWorker } from "../../client/inline-worker.js";

process.chdir(import.meta.dirname);
rmSync("dist", { recursive: true, force: true });

await build({
  entryPoints: [
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
  ],
  outdir: "dist",
  entryNames: "[name]",
  bundle: true,
  format: "esm",
  target: "es2022",
  // tfjs-core asks for Node's modules where there is no fetch.
  platform: "browser",
  logLevel: "warning",
  plugins: [inlineWorker],
});
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
