/**
 * `kernelzoo/ort`: onnxruntime-web's interface on a zoo's kernels.
 *
 * ```ts
 * import { env } from "kernelzoo/ort"; // or from "onnxruntime-web", for which it stands
 *
 * env.kernelzoo = { url: "https://zoo.example", fallback: () => import("onnxruntime-web-real") };
 * ```
 */
import { Tensor } from "onnxruntime-common";
import { type Env, env } from "./env.js";
import { InferenceSession } from "./session.js";

export * from "onnxruntime-common";
export { type Env, env, type ZooSettings } from "./env.js";
export { InferenceSession, type SessionEngine } from "./session.js";

const runtime: {
  readonly InferenceSession: typeof InferenceSession;
  readonly Tensor: typeof Tensor;
  readonly env: Env;
} = { InferenceSession, Tensor, env };
export default runtime;
