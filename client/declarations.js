/**
 * The package's declarations: what tsc emits, less what no page can reach, and with WebGPU's interfaces
 * from wherever a project has them.
 */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";

const TYPESCRIPT = "node_modules/typescript-native/bin/tsc";
const ROOT = "dist/types";
/** Declarations by the file of dist whose they are. */
const ENTRIES = { sdk: "sdk/index", chat: "chat/index", ort: "ort/index" };
const WEBGPU = `${ROOT}/webgpu.d.ts`;
const DISPOSABLE = '/// <reference lib="esnext.disposable" />\n';

/**
 * TypeScript's own library has WebGPU since 6, @webgpu/types had it before, and a project may have
 * neither: a name that is nobody's would be an error in each of them, and a second one in others.
 * @param {Iterable<string>} names
 */
const webgpu = (
  names,
) => `/** Interfaces of WebGPU as the project knows them; unknown where it does not. */
type Known<Name extends string> =
  typeof globalThis extends Record<Name, { prototype: infer Interface }> ? Interface : unknown;
${[...names].map((name) => `export type ${name} = Known<"${name}">;`).join("\n")}
`;

/** @param {string} file */
const importsOf = (file) =>
  [...readFileSync(file, "utf8").matchAll(/from "(\.[^"]+)\.js"/g)].map(([, path]) =>
    join(file, "..", `${path}.d.ts`),
  );

/** @param {readonly string[]} entries */
function reachableFrom(entries) {
  const found = new Set(entries);
  for (const file of found) for (const each of importsOf(file)) found.add(each);
  return found;
}

export function buildDeclarations() {
  const options = ["--project", "tsconfig.declarations.json"];
  execFileSync(process.execPath, [TYPESCRIPT, ...options], { stdio: "inherit" });
  const shipped = reachableFrom(Object.values(ENTRIES).map((entry) => `${ROOT}/${entry}.d.ts`));
  const emitted = readdirSync(ROOT, { recursive: true }).map((name) => join(ROOT, String(name)));
  for (const path of emitted) {
    if (statSync(path).isFile() && !shipped.has(path)) rmSync(path);
  }
  // The deepest first, so that a folder of empty folders goes, too.
  for (const path of emitted
    .filter((each) => existsSync(each))
    .sort()
    .reverse()) {
    if (statSync(path).isDirectory() && readdirSync(path).length === 0) rmdirSync(path);
  }
  const all = new Set();
  for (const path of shipped) {
    const text = readFileSync(path, "utf8");
    const names = new Set(text.match(/\bGPU[A-Z]\w+/g));
    if (names.size === 0) continue;
    for (const name of names) all.add(name);
    const from = relative(join(path, ".."), WEBGPU).replace(/\.d\.ts$/, ".js");
    writeFileSync(path, `import type { ${[...names].join(", ")} } from "${from}";\n${text}`);
  }
  // A project may be compiled for a language that has no disposal yet.
  for (const path of shipped) {
    const text = readFileSync(path, "utf8");
    if (text.includes("Symbol.asyncDispose")) writeFileSync(path, `${DISPOSABLE}${text}`);
  }
  writeFileSync(WEBGPU, webgpu(all));
  for (const [name, entry] of Object.entries(ENTRIES)) {
    const from = `from "./types/${entry}.js";\n`;
    const hasDefault = readFileSync(`${ROOT}/${entry}.d.ts`, "utf8").includes("export default");
    const own = hasDefault ? `export { default } ${from}` : "";
    writeFileSync(`dist/${name}.d.ts`, `export * ${from}${own}`);
  }
}
