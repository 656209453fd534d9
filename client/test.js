/**
 * Bundles tests/*.test.ts and runs them with Node's own runner, with source positions. With an
 * argument, as in `npm test -- gpu`, those whose names contain it.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";
import { inlineWorker } from "./inline-worker.js";

const OUTPUT = "node_modules/.cache/tests";

process.chdir(import.meta.dirname);
rmSync(OUTPUT, { recursive: true, force: true });

const [, , wanted = ""] = process.argv;
const tests = readdirSync("tests").filter(
  (name) => name.endsWith(".test.ts") && name.includes(wanted),
);
await build({
  entryPoints: tests.map((name) => `tests/${name}`),
  outdir: OUTPUT,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  packages: "external",
  platform: "node",
  format: "esm",
  sourcemap: "inline",
  logLevel: "warning",
  plugins: [inlineWorker],
});

const files = readdirSync(OUTPUT).map((name) => `${OUTPUT}/${name}`);
const options = ["--enable-source-maps", "--test-reporter=spec", "--test"];
const { status } = spawnSync(process.execPath, [...options, ...files], { stdio: "inherit" });
process.exit(status ?? 1);
