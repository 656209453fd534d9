/**
 * Bundles tests/*.test.ts and runs them with Node's own runner, with source positions. With an
 * argument, as in `npm test -- gpu`, those whose names contain it. Files with tests that fail beside
 * others run again one by one: what passes then is printed as flaky, and does not fail the run.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { basename, resolve } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { rolldown } from "rolldown";
import { inlineWorker } from "./inline-worker.js";

process.chdir(import.meta.dirname);
// A folder of its own, so that two runs do not take each other's files away.
mkdirSync("node_modules/.cache", { recursive: true });
const OUTPUT = mkdtempSync("node_modules/.cache/tests-");
process.on("exit", () => rmSync(OUTPUT, { recursive: true, force: true }));

const [, , wanted = ""] = process.argv;
const tests = readdirSync("tests").filter(
  (name) => name.endsWith(".test.ts") && name.includes(wanted),
);
const bundle = await rolldown({
  input: tests.map((name) => `./tests/${name}`),
  external: /^[@a-z]/,
  platform: "node",
  plugins: [inlineWorker],
});
await bundle.write({
  dir: OUTPUT,
  entryFileNames: "[name].mjs",
  chunkFileNames: "chunks/[name]-[hash].mjs",
  format: "esm",
  sourcemap: "inline",
});

process.setSourceMapsEnabled(true);
process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ""} --enable-source-maps`;

/**
 * The files with tests that failed.
 * @param {string[]} files
 * @param {boolean} concurrency
 */
async function failing(files, concurrency) {
  const failed = new Set();
  const stream = run({ files, concurrency });
  // Source maps tell of tests/NAME.test.ts; what runs is NAME.test.mjs.
  /** @param {string} file */
  const runs = (file) => resolve(OUTPUT, basename(file).replace(/\.test\.\w+$/, ".test.mjs"));
  stream.on("test:fail", ({ file = "" }) => failed.add(runs(file)));
  for await (const text of stream.compose(new spec())) process.stdout.write(text);
  return [...failed];
}

const files = readdirSync(OUTPUT)
  .filter((name) => name.endsWith(".mjs"))
  .map((name) => resolve(OUTPUT, name));
const failed = await failing(files, true);
const again = failed.length > 0 ? await failing(failed, false) : [];
const flaky = failed.filter((file) => !again.includes(file)).map((file) => basename(file));
if (flaky.length > 0) console.log(`flaky: failed beside others and passed alone: ${flaky}`);
process.exit(again.length > 0 ? 1 : 0);
