/** Bundles what benchmarks run in a page, with the engine of the SDK, and prints where it is. */
import { build } from "esbuild";
import { bundles } from "./bundles.js";

const OUTPUT = "node_modules/.cache/bench/primitives.js";

const { outdir: _, ...shared } = bundles;
await build({
  ...shared,
  absWorkingDir: import.meta.dirname,
  entryPoints: ["bench/primitives.ts"],
  outfile: OUTPUT,
  sourcemap: false,
});
process.stdout.write(`${import.meta.dirname}/${OUTPUT}\n`);
