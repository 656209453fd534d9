import assert from "node:assert/strict";
import { test } from "node:test";
import { handle } from "../src/rpc.js";

type Asked = { readonly type: "add"; readonly by: number } | { readonly type: "reset" };

test("a message is handled by what its type names, and others' messages by nobody", () => {
  let sum = 1;
  const handlers = {
    add({ by }: { readonly by: number }) {
      sum += by;
    },
    reset() {
      sum = 0;
    },
  };
  handle<Asked>(handlers, { type: "add", by: 2 });
  assert.equal(sum, 3);
  handle<Asked>(handlers, { type: "other" } as unknown as Asked);
  assert.equal(sum, 3);
  handle<Asked>(handlers, { type: "reset" });
  assert.equal(sum, 0);
});
