/** Runs a session on the real onnxruntime-web, which a page loads with the first one that needs it. */
import { type InferenceSession, Tensor } from "onnxruntime-common";
import { sentence } from "../engine/error.js";
import { env } from "./env.js";

type Session = InferenceSession;
type Options = InferenceSession.SessionOptions;

/** The parts of onnxruntime-web that are used here. */
interface Onnxruntime {
  readonly InferenceSession: {
    create(model: string | Uint8Array, options: Options): Promise<Session>;
  };
  readonly env: typeof env;
}

let loading: Promise<Onnxruntime> | undefined;

async function loaded(): Promise<Onnxruntime> {
  let module: Partial<Onnxruntime> & { readonly default?: Partial<Onnxruntime> };
  const fallback = env.kernelzoo?.fallback;
  if (fallback === undefined) {
    throw new Error("onnxruntime-web has to run this: import it by env.kernelzoo.fallback.");
  }
  try {
    module = (await fallback()) as typeof module;
  } catch (cause) {
    throw new Error(`env.kernelzoo.fallback failed: ${sentence(cause)}`, { cause });
  }
  const { InferenceSession, env: own } = module.InferenceSession ? module : (module.default ?? {});
  if (InferenceSession === undefined || own === undefined) {
    throw new TypeError("env.kernelzoo.fallback gave no onnxruntime-web.");
  }
  const real = { InferenceSession, env: own };
  configure(real);
  return real;
}

/** Takes the page's settings over, but those that onnxruntime-web makes itself. */
function configure({ env: real }: Onnxruntime): void {
  Object.assign(real.wasm, env.wasm);
  Object.assign(real.webgpu, env.webgpu);
  Object.assign(real.webgl, env.webgl);
  for (const name of ["logLevel", "debug", "trace"] as const) {
    if (env[name] !== undefined) Object.assign(real, { [name]: env[name] });
  }
  Object.assign(env.versions, real.versions);
}

/** A session on onnxruntime-web. Rejects as that does, and where it cannot be imported. */
export async function onnxruntimeSession(
  model: string | Uint8Array,
  options: Options,
): Promise<Session> {
  loading ??= loaded();
  loading.catch(() => {
    loading = undefined;
  });
  const { InferenceSession } = await loading;
  return InferenceSession.create(model, options);
}

/** A tensor of the real package, whose class is another one, as one of the page's. */
export function taken(tensor: Tensor): Tensor {
  const isOwn: boolean = tensor instanceof Tensor;
  if (isOwn) return tensor;
  const { type, dims, location } = tensor;
  const elsewhere = {
    dataType: type,
    dims,
    download: () => tensor.getData(),
    dispose: () => tensor.dispose(),
  } as never;
  if (location === "gpu-buffer") return Tensor.fromGpuBuffer(tensor.gpuBuffer as never, elsewhere);
  if (location === "ml-tensor") return Tensor.fromMLTensor(tensor.mlTensor as never, elsewhere);
  return new Tensor(type, tensor.data, dims);
}
