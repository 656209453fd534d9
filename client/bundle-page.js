/**
 * Bundles a script that runs in a page with parts of the client, and prints where it is:
 * `node bundle-page.js bench/primitives.ts`.
 */
import { basename } from "node:path";
import { build } from "esbuild";
import { bundles } from "./bundles.js";

const [entry = ""] = process.argv.slice(2);
const output = `node_modules/.cache/page/${basename(entry, ".ts")}.js`;

const { outdir: _, ...shared } = bundles;
await build({
  ...shared,
  absWorkingDir: import.meta.dirname,
  entryPoints: [entry],
  outfile: output,
  sourcemap: false,
});
process.stdout.write(`${import.meta.dirname}/${output}\n`);
