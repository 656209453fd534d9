/**
 * Writes docs/api/sdk.md from the sources of the SDK. With `--check` it writes nothing, and fails
 * where that file says something else.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const TYPEDOC = "node_modules/typedoc/bin/typedoc";
const MADE = "node_modules/.cache/reference/README.md";
const KEPT = "../docs/api/sdk.md";
const HEAD = `# Reference of the SDK

What \`import { … } from "kernelzoo"\` gives. \`make generate\` writes this file from the comments in
\`client/src\`. [Add kernelzoo to a site](../web-developers.md) tells how to use it.

`;

process.chdir(import.meta.dirname);
execFileSync(process.execPath, [TYPEDOC, "--logLevel", "Error"], { stdio: "inherit" });
const text = HEAD + readFileSync(MADE, "utf8");
if (!process.argv.includes("--check")) {
  writeFileSync(KEPT, text);
} else if (readFileSync(KEPT, "utf8") !== text) {
  console.error("docs/api/sdk.md is not what client/src says; run `make generate`");
  process.exit(1);
}
