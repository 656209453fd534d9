/** Runs the kernels of a folder on their memories: `node javascript_runner.mjs FOLDER`. */
import { readFileSync, writeFileSync } from "node:fs";

const folder = process.argv[2];
const orders = JSON.parse(readFileSync(`${folder}/orders.json`, "utf8"));
for (const [number, { words, slices }] of orders.entries()) {
  const memory = Uint8Array.from(readFileSync(`${folder}/${number}.bin`)).buffer;
  const { main } = await import(`${folder}/${number}.mjs`);
  const run = main(memory);
  for (const [lo, hi] of slices) run(...words, lo, hi);
  writeFileSync(`${folder}/${number}.bin`, new Uint8Array(memory));
}
