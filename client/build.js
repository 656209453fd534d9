/** Builds dist/: the SDK, the agent and the console, their pages and the SDK's types. */
import { execFileSync } from "node:child_process";
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { pages, sdk } from "./bundles.js";

const TYPESCRIPT = "node_modules/typescript-native/bin/tsc";

process.chdir(import.meta.dirname);
rmSync("dist", { recursive: true, force: true });

await Promise.all([build(sdk), build(pages)]);
cpSync("pages", "dist", { recursive: true });
for (const file of ["swagger-ui-bundle.js", "swagger-ui.css"]) {
  cpSync(`node_modules/swagger-ui-dist/${file}`, `dist/${file}`);
}

execFileSync(process.execPath, [TYPESCRIPT, "--project", "tsconfig.declarations.json"], {
  stdio: "inherit",
});
// Interfaces of WebGPU are not in every TypeScript's own library.
writeFileSync(
  "dist/sdk.d.ts",
  '/// <reference types="@webgpu/types" />\nexport * from "./types/sdk/index.js";\n',
);
