/** What stands for onnxruntime-web is held to the types of onnxruntime-common. */
import type * as common from "onnxruntime-common";
import runtime, { env, InferenceSession, type SessionEngine, Tensor } from "kernelzoo/ort";

export const factory: common.InferenceSessionFactory = InferenceSession;
export const settings: common.Env = env;
export const tensors: common.TensorConstructor & common.TensorFactory = runtime.Tensor;

export async function main(file: Uint8Array): Promise<common.InferenceSession> {
  env.kernelzoo = { url: "https://zoo.example", fallback: () => import("onnxruntime-common") };
  const session = await InferenceSession.create(file, { executionProviders: ["wasm"] });
  const engine: SessionEngine = session.kernelzoo;
  const x: common.Tensor = new Tensor("float32", new Float32Array(2), [2]);
  const outputs: common.InferenceSession.ReturnType = await session.run({ x }, [engine.engine]);
  await session.run(outputs, { y: null }, { tag: "again" });
  // @ts-expect-error: no type of tensors
  new Tensor("float33", new Float32Array(2));
  return session;
}
