/** Checks what a page is given that bounds the error of a precision. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Answered } from "../src/model/request.js";
import { held } from "../src/model/target-choice.js";
import type { ModelAnswer, Precision } from "../src/wire/model-answer.js";

const COMPARED: ModelAnswer["precisions"] = [
  { precision: "f32", expected_ms: 48, measured: 1, error: null },
  { precision: "int8", expected_ms: 21, measured: 1, error: 0.031 },
];

const errorOf = (given: Precision) =>
  COMPARED.find(({ precision }) => precision === given)?.error ?? undefined;

const answered = (told: Partial<ModelAnswer>, storage_error: number | undefined): Answered => {
  const answer = { name: "net", plan: { golden: { storage_error } }, ...told };
  return { answer: answer as unknown as ModelAnswer, origin: "" };
};

/** An answer of a zoo that finds int8 faster; `asked` notes what it was asked for. */
const zoo =
  (asked: (Precision | undefined)[] = []) =>
  async (precision?: Precision): Promise<Answered> => {
    asked.push(precision);
    const given = precision ?? "int8";
    const precisions = COMPARED.filter((each) => (precision ?? each.precision) === each.precision);
    return answered(
      { precision: given, precision_reason: "It is faster.", precisions },
      errorOf(given),
    );
  };

test("a precision that errs no more than allowed is taken as the zoo chose it", async () => {
  const asked: (Precision | undefined)[] = [];
  const { answer } = await held({ maxError: 0.04 }, zoo(asked));
  assert.deepEqual([answer.precision, answer.precision_reason], ["int8", "It is faster."]);
  assert.deepEqual(asked, [undefined]);
});

test("one that errs more gives way to the other, and the page hears why", async () => {
  const asked: (Precision | undefined)[] = [];
  const { answer } = await held({ precision: "auto", maxError: 0.01 }, zoo(asked));
  assert.deepEqual(asked, [undefined, "f32"]);
  assert.equal(answer.precision, "f32");
  assert.equal(answer.precision_reason, "int8 is off by 0.031, which is more than 0.01.");
  assert.deepEqual(answer.precisions, COMPARED);
});

test("what no plan keeps to is refused", async () => {
  await assert.rejects(held({ precision: "int8", maxError: 0.01 }, zoo()), {
    stage: "manifest",
    message: /^No plan of net errs by 0.01 at most: int8 is off by 0.031. Allow more/,
  });
});

test("a file on a static host that is of another precision is refused", async () => {
  const file = () => zoo()("int8");
  await assert.rejects(held({ precision: "f32" }, file), {
    stage: "manifest",
    message: "This file of net is of int8, not of f32: open the file that is.",
  });
});

test("the plan of a zoo that compares no precisions says itself how far it is off", async () => {
  const older = async () => answered({}, 0.02);
  assert.equal((await held({ maxError: 0.02 }, older)).answer.precision, undefined);
  await assert.rejects(held({ maxError: 0.01 }, older), {
    stage: "manifest",
    message: /^No plan of net errs by 0.01 at most: its plan is off by 0.020. Allow more/,
  });
});
