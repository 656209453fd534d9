/**
 * `import source from "./worker.js?inlined"` is that worker, bundled, as text. A worker's address
 * must be of the page's own origin, and the SDK may come from any: so it carries its worker along.
 *
 * `import source from "./worker.js?parts"` is the same, put together of texts that such workers share: a
 * site whose bundler makes one file of the SDK has each of them once.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { rolldown } from "rolldown";
import { minify } from "terser";
import { partition } from "./worker-parts.js";

const INLINED = "?inlined";
const PARTS = "?parts";
/** A text that several workers share. */
const PART = "\0part:";

/**
 * No getter of ours does anything but answer, and no function is constructed that is no class.
 * @type {import("terser").MinifyOptions}
 */
export const TERSER = {
  module: true,
  ecma: 2020,
  compress: { passes: 4, pure_getters: true, unsafe_arrows: true },
};

/** Texts of workers by their files: several bundles of a build carry the same. @type {Map<string, Promise<string>>} */
const texts = new Map();

/** @param {string} file */
async function bundledText(file) {
  const bundle = await rolldown({ input: file, plugins: [inlineWorker] });
  const { output } = await bundle.generate({ format: "iife", minify: true, comments: false });
  const { code = "" } = await minify(output[0].code, TERSER);
  return code;
}

/**
 * The workers of which sources import parts.
 * @param {string} folder
 */
function workersInParts(folder) {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => resolve(folder, name));
  const imported = files.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/(?:from |import\()"([^"]+)\.js\?parts"/g)].map(
      ([, path]) => resolve(dirname(file), `${path}.ts`),
    ),
  );
  return [...new Set(imported)].sort();
}

/** @param {string} chunk */
const constant = (chunk) => chunk.replaceAll("-", "_");

/**
 * A module of a worker as a statement of a script, whose exports are properties of one constant.
 * @param {string} name
 * @param {string} code
 */
function statement(name, code) {
  const pairs = (/** @type {string} */ list, /** @type {boolean} */ exported) =>
    list
      .split(",")
      .map((each) => each.trim().split(" as "))
      .map(([from, to = from]) => (exported ? `${to}:${from}` : `${from}:${to}`))
      .join(",");
  const inside = code
    .replaceAll(
      /import\{([^}]*)\}from"\.\/([\w-]+)\.js";/g,
      (_, list, from) => `const{${pairs(list, false)}}=${constant(from)};`,
    )
    .replaceAll(/import"\.\/[\w-]+\.js";/g, "")
    .replace(/export\{([^}]*)\};?\s*$/, (_, list) => `;return{${pairs(list, true)}}`);
  if (/\b(import|export)\s*[{"]/.test(inside)) throw new Error(`${name} is no part of a script`);
  return `const ${constant(name)}=(()=>{"use strict";${inside}})();\n`;
}

/**
 * A worker loads no further files: what its modules import when it is needed is there from the start.
 * @type {import("rolldown").Plugin}
 */
const atOnce = {
  name: "at-once",
  transform(code) {
    /** @type {string[]} */
    const imports = [];
    const text = code.replaceAll(/\bimport\(("\.[^"]+")\)/g, (_, path) => {
      imports.push(`import * as imported${imports.length} from ${path};`);
      return `Promise.resolve(imported${imports.length - 1})`;
    });
    return imports.length === 0 ? null : { code: `${text}\n${imports.join("\n")}`, map: null };
  },
};

/**
 * The statements of all workers in parts by name, and for each worker's file their names in order.
 * @type {Promise<{ texts: Map<string, string>; partsOf: Map<string, readonly string[]> }> | undefined}
 */
let bundling;

/**
 * Bundles them once for all bundles of a build, whichever worker is asked for first.
 * @param {string} worker
 */
function inParts(worker) {
  bundling ??= bundledParts(worker.slice(0, worker.lastIndexOf("/src/") + "/src".length));
  return bundling;
}

/** @param {string} folder */
async function bundledParts(folder) {
  const workers = workersInParts(folder);
  const names = new Map(workers.map((file, i) => [file, `worker${i}`]));
  const parts = partition(workers);
  const bundle = await rolldown({
    input: Object.fromEntries(workers.map((file, i) => [`worker${i}`, file])),
    plugins: [inlineWorker, atOnce, parts.plugin],
    preserveEntrySignatures: false,
  });
  const { output } = await bundle.generate({
    format: "esm",
    minify: true,
    comments: false,
    entryFileNames: "[name].js",
    chunkFileNames: "[name].js",
    codeSplitting: {
      groups: [{ name: parts.nameOf, debugName: "parts" }],
      includeDependenciesRecursively: false,
    },
  });
  const chunks = output.filter((file) => file.type === "chunk");
  const statements = await Promise.all(
    chunks.map(async ({ name, code }) => {
      const { code: text = "" } = await minify(code, TERSER);
      return /** @type {const} */ ([name, statement(name, text)]);
    }),
  );
  const imports = new Map(
    chunks.map(({ name, imports }) => [name, imports.map((file) => file.replace(/\.js$/, ""))]),
  );
  /** Those that one needs before it. @type {(name: string, before: Set<string>) => Set<string>} */
  const inOrder = (name, before) => {
    if (before.has(name)) return before;
    for (const needed of imports.get(name) ?? []) inOrder(needed, before);
    return before.add(name);
  };
  const partsOf = new Map(
    workers.map((file) => [file, [...inOrder(names.get(file) ?? "", new Set())]]),
  );
  return { texts: new Map(statements), partsOf };
}

/** @type {import("rolldown").Plugin} */
export const inlineWorker = {
  name: "inline-worker",
  resolveId(path, importer) {
    if (path.startsWith(PART)) return path;
    const [, file, query] = /^(.*)\.js(\?inlined|\?parts)$/.exec(path) ?? [];
    return file === undefined ? null : resolve(dirname(importer ?? ""), `${file}.ts${query}`);
  },
  async load(id) {
    if (id.startsWith(PART)) {
      const { texts } = await inParts(id);
      return `export default ${JSON.stringify(texts.get(id.slice(PART.length)))};`;
    }
    if (id.endsWith(INLINED)) {
      const file = id.slice(0, -INLINED.length);
      const text = texts.get(file) ?? bundledText(file);
      texts.set(file, text);
      return { code: `export default ${JSON.stringify(await text)};`, moduleType: "js" };
    }
    if (!id.endsWith(PARTS)) return null;
    const { partsOf } = await inParts(id);
    const parts = partsOf.get(id.slice(0, -PARTS.length)) ?? [];
    const imports = parts.map(
      (name) => `import ${constant(name)} from ${JSON.stringify(PART + name)};\n`,
    );
    const code = `${imports.join("")}export default ${parts.map(constant).join(" + ")};`;
    return { code, moduleType: "js", moduleSideEffects: false };
  },
};
