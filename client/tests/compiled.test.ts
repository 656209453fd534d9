import assert from "node:assert/strict";
import { test } from "node:test";
import { KernelZooError } from "../src/engine/error.js";
import type { Progress } from "../src/executor/messages.js";
import { deadline } from "../src/gateway/deadline.js";
import { compiled } from "../src/model/compile-wait.js";
import type { Host } from "../src/model/host.js";
import type { Answered } from "../src/model/request.js";
import type { ModelAnswer } from "../src/wire/model-answer.js";

const hostOf = (timeoutMs: number, signal?: AbortSignal): Host =>
  ({ deadline: deadline(timeoutMs, signal), tools: { KernelZooError } }) as unknown as Host;

function answered(missing: readonly string[], compiling: readonly string[] = missing): Answered {
  const plan = { kernels: ["wide", "narrow", "sum"] };
  const device_class = "0123456789abcdef:r1-0:wasm+simd128";
  const answer = { name: "tiny", device_class, plan, missing, compiling };
  return { answer: answer as unknown as ModelAnswer, origin: "http://zoo.test/" };
}

/** A zoo that answers these, the last for ever. */
function zooOf(...answers: readonly Answered[]) {
  const left = [...answers];
  const told: Progress[] = [];
  const ask = async () => (left.length > 1 ? left.shift() : left[0]) as Answered;
  return {
    ask,
    told,
    waiting: { progress: (each: Progress) => told.push(each), signal: undefined },
  };
}

test("a page waits for kernels that the zoo compiles, and is told how far it is", async () => {
  const zoo = zooOf(answered(["wide", "sum"]), answered(["sum"]), answered([]));
  const found = await compiled(hostOf(5_000), await zoo.ask(), zoo.ask, zoo.waiting);
  assert.deepEqual(found.answer.missing, []);
  assert.deepEqual(
    zoo.told.map(({ phase, loaded, total }) => [phase, loaded, total]),
    [
      ["compile", 1, 3],
      ["compile", 2, 3],
    ],
  );
});

test("what is not there within the page's timeout is refused with what to do", async () => {
  const zoo = zooOf(answered(["wide", "sum"]));
  await assert.rejects(compiled(hostOf(150), await zoo.ask(), zoo.ask, zoo.waiting), {
    stage: "manifest",
    message:
      /compiling 2 of the 3 kernels of tiny after \d+ s\. Open it again in a moment, or give KernelZoo\.open a larger timeoutMs/,
  });
});

test("nobody waits for a kernel that the zoo does not compile", async () => {
  const zoo = zooOf(answered(["wide", "sum"], ["wide"]));
  await assert.rejects(compiled(hostOf(60_000), await zoo.ask(), zoo.ask, zoo.waiting), {
    stage: "manifest",
    message:
      /no kernel of wasm for sum, which tiny needs, and compiles none\. .*models add FILE --name tiny/,
  });
});

test("a page that aborts is told its own reason", async () => {
  const stop = new AbortController();
  const zoo = zooOf(answered(["wide"]));
  const waiting = { ...zoo.waiting, signal: stop.signal };
  const refused = compiled(hostOf(60_000), await zoo.ask(), zoo.ask, waiting);
  stop.abort("another page");
  await assert.rejects(refused, (reason) => reason === "another page");
});
