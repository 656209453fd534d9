/**
 * Bundles a script that runs in a page with parts of the client, and prints where it is:
 * `node bundle-page.js bench/primitives.ts`.
 */
import { basename, resolve } from "node:path";
import { writePageScript } from "./bundles.js";

const [entry = ""] = process.argv.slice(2);
process.chdir(import.meta.dirname);
const output = resolve(`node_modules/.cache/page/${basename(entry, ".ts")}.js`);
await writePageScript(entry, output);
process.stdout.write(`${output}\n`);
