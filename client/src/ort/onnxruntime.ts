/** Runs a session on the real onnxruntime-web, which a page loads with the first one that needs it. */
import { type InferenceSession, Tensor } from "onnxruntime-common";
import { sentence } from "../engine/error.js";
import { env } from "./env.js";

/** The parts of onnxruntime-web that are used here. */
interface Onnxruntime {
  readonly InferenceSession: {
    create(
      model: string | Uint8Array,
      options: InferenceSession.SessionOptions,
    ): Promise<InferenceSession>;
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
  return { InferenceSession, env: own };
}

/** Settings of onnxruntime-web that are there only once it has started. */
const MADE_LATER: Readonly<Record<string, readonly string[]>> = { webgpu: ["device", "adapter"] };

/**
 * Makes the settings of a page those of onnxruntime-web, whose own are read and written from then on.
 */
function link(page: object, real: object, later: readonly string[] = []): void {
  // A project may have one onnxruntime-common for both.
  if (page === real) return;
  for (const name of new Set([...Object.keys(page), ...Object.keys(real), ...later])) {
    const own = Object.getOwnPropertyDescriptor(page, name);
    if (own?.get !== undefined) continue;
    if (own?.value !== undefined) Reflect.set(real, name, own.value);
    Object.defineProperty(page, name, {
      get: () => Reflect.get(real, name),
      set: (value) => Reflect.set(real, name, value),
      configurable: true,
      enumerable: true,
    });
  }
}

/** Settings that a page changed since the last session count from this one on. */
function configure({ env: real }: Onnxruntime): void {
  for (const name of ["wasm", "webgpu", "webgl"] as const) {
    link(env[name], real[name], MADE_LATER[name]);
  }
  for (const name of ["logLevel", "debug", "trace"] as const) {
    if (env[name] !== undefined) Object.assign(real, { [name]: env[name] });
  }
  Object.assign(env.versions, real.versions);
}

/** A session on onnxruntime-web. Rejects as that does, and where it cannot be imported. */
export async function onnxruntimeSession(
  model: string | Uint8Array,
  options: InferenceSession.SessionOptions,
): Promise<InferenceSession> {
  loading ??= loaded();
  loading.catch(() => {
    loading = undefined;
  });
  const real = await loading;
  configure(real);
  return real.InferenceSession.create(model, options);
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
