/** Keys that are written out, as the compiler sees them; `npm run types` is what runs most of this. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { InputsOf, KernelZoo, WorkloadKey } from "../src/sdk/index.js";

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const holds = <Claim extends true>(claim: Claim): boolean => claim;

/** Never called: what it says is read by the compiler alone. */
export async function typed(zoo: KernelZoo, someKey: string, rows: number): Promise<void> {
  const { a, indices } = (await zoo.kernel("gather:f32:m9k20n13")).inputs;
  await zoo.kernel("matmul_i8+scales+bias:f32:m1k768n3072:constant=b");
  await zoo.kernel("conv2d+relu:f16:b1h56w56c64o64kh3kw3stride1pad1");
  await zoo.kernels(["matmul:f32:m1k2n3", "softmax:f32:m4n5"]);
  await zoo.kernels(["layer_norm:f32:m4n5", "layer_norm:f32:m4n5eps12"]);
  await zoo.kernel("program:add_gelu:0123456789abcdef");
  // What is only known when the page runs is checked by the zoo.
  await zoo.kernel(someKey);
  await zoo.kernel(`matmul:f32:m${rows}k768n768`);
  await zoo.kernel(`matmul:f32:${someKey}`);
  await zoo.kernels([someKey]);
  a satisfies Float32Array;
  indices satisfies Int32Array;

  // @ts-expect-error: no operator is called matmull
  await zoo.kernel("matmull:f32:m1k2n3");
  // @ts-expect-error: no operator is called conv3d
  await zoo.kernels(["matmul:f32:m1k2n3", "conv3d:f32:n8"]);
  // @ts-expect-error: no epilogue is called rleu
  await zoo.kernel("matmul+bias+rleu:f32:m1k2n3");
  // @ts-expect-error: softmax takes no epilogue
  await zoo.kernel("softmax+bias:f32:m4n5");
  // @ts-expect-error: no dtype is called f64
  await zoo.kernel("matmul:f64:m1k2n3");
  // @ts-expect-error: the extents of matmul are m, k and n
  await zoo.kernel("matmul:f32:m1n3k2");
  // @ts-expect-error: gelu gains nothing from constant weights
  await zoo.kernel("gelu:f32:n8:constant=b");
  // @ts-expect-error: no key at all
  await zoo.kernel("matmul");
  // @ts-expect-error: no input is called z
  (await zoo.kernel("add:f32:n8")).run({ z: [1] });
}

test("a key that is written out is itself, or a sentence that says what is wrong", () => {
  type Wrong = WorkloadKey<"matmull:f32:m1k2n3">;
  assert.ok(holds<Same<Wrong, "no operator is called matmull">>(true));
  assert.ok(holds<Same<WorkloadKey<"gelu:f32:n8">, "gelu:f32:n8">>(true));
  assert.ok(holds<Same<WorkloadKey<string>, string>>(true));
});

test("inputs of every operator and epilogue are known by name", () => {
  type Norm = { a: Float32Array; gamma: Float32Array; beta: Float32Array };
  assert.ok(holds<Same<InputsOf<"layer_norm:f32:m4n5">, Norm>>(true));
  type Scaled = InputsOf<"matmul_i8+scales:f32:m1k2n3">;
  assert.ok(holds<Same<Scaled["b" | "scales"], Int8Array | Float32Array>>(true));
});
