/** docs/api/sdk.md, chat.md and ort.md say what the sources do. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

test("the reference of the SDK is that of its sources", () => {
  const { status, stderr } = spawnSync(process.execPath, ["reference.js", "--check"]);
  assert.equal(status, 0, String(stderr));
});
