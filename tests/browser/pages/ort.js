/**
 * A page of an application that runs models by onnxruntime-web's interface, as tests/browser/test_ort.py
 * asks for it. Its import map has `kernelzoo/ort` in the place of onnxruntime-web.
 */
import * as ort from "onnxruntime-web";

const REAL = "onnxruntime-web-real";

/** Fetches of the real onnxruntime-web and its WebAssembly. */
const loadedReal = () =>
  performance.getEntriesByType("resource").filter(({ name }) => name.includes("/onnxruntime-web/"))
    .length;

export function configure(settings) {
  ort.env.wasm.numThreads = 1;
  ort.env.kernelzoo = { ...settings, fallback: () => import(REAL) };
}

/** The sentence of a page that has no onnxruntime-web. */
export async function alone(address, settings) {
  ort.env.kernelzoo = settings;
  return ort.InferenceSession.create(address).then(
    ({ kernelzoo }) => kernelzoo.engine,
    ({ message }) => message,
  );
}

function tensors({ Tensor }, feeds) {
  const made = ({ type, data, dims }) =>
    new Tensor(type, type === "int64" ? BigInt64Array.from(data, BigInt) : data, dims);
  return Object.fromEntries(Object.entries(feeds).map(([name, feed]) => [name, made(feed)]));
}

const plain = (outputs) =>
  Object.fromEntries(
    Object.entries(outputs).map(([name, { type, dims, data }]) => [
      name,
      { type, dims, data: [...data].map(Number) },
    ]),
  );

/** The code of the application: the same for both. */
async function application(runtime, model, runs, options) {
  const session = await runtime.InferenceSession.create(model, options);
  const { inputNames, outputNames, inputMetadata, outputMetadata } = session;
  const outputs = [];
  const engines = [];
  for (const feeds of runs) {
    const made = await session.run(tensors(runtime, feeds));
    outputs.push(plain(made));
    engines.push(session.kernelzoo);
    if (!Object.values(made).every((each) => each instanceof runtime.Tensor))
      throw new Error("an output is of another class of tensors");
  }
  await session.release();
  return { inputNames, outputNames, inputMetadata, outputMetadata, outputs, engines };
}

/** What the application computes by the zoo, and by onnxruntime-web. */
export async function compared(address, runs, options = {}, asBytes = false) {
  const model = asBytes ? new Uint8Array(await (await fetch(address)).arrayBuffer()) : address;
  const own = await application(ort, model, runs, options);
  const loaded = loadedReal();
  const real = await import(REAL);
  real.env.wasm.numThreads = 1;
  return { own, loaded, real: await application(real, model, runs, options) };
}

/** The sentences by which calls are refused, by both. */
export async function refused(address) {
  const [own, real] = [ort, await import(REAL)].map(async (runtime) => {
    const { InferenceSession, Tensor } = runtime;
    const session = await InferenceSession.create(address);
    const kind = async (work) => {
      try {
        await work();
        return "nothing was refused";
      } catch (error) {
        return error.constructor.name;
      }
    };
    const [name] = session.inputNames;
    const x = new Tensor("float32", new Float32Array(8), [1, 8]);
    const kinds = [
      await kind(() => session.run()),
      await kind(() => session.run({})),
      await kind(() => session.run({ [name]: x }, [])),
      await kind(() => session.run({ [name]: x }, ["nothing"])),
      await kind(() => session.run({ [name]: x }, "y")),
      await kind(() => session.run({ [name]: new Tensor("int32", new Int32Array(8), [1, 8]) })),
      await kind(() => InferenceSession.create(7)),
      await kind(() => InferenceSession.create(new ArrayBuffer(8), 9)),
      await kind(() => InferenceSession.create(new Uint8Array([1, 2, 3]))),
      await kind(() => InferenceSession.create(`${address}.none`)),
    ];
    const into = { y: new Tensor("float32", new Float32Array(8), [1, 8]) };
    const { y } = await session.run({ [name]: x }, into);
    await session.release();
    return { kinds, into: y === into.y && [...y.data].every(Number.isFinite) };
  });
  return { own: await own, real: await real };
}

/** Settings of the page, before onnxruntime-web runs a session and behind it. */
export async function settings(address) {
  const { env, InferenceSession } = ort;
  const real = await import(REAL);
  env.wasm.initTimeout = 60_000;
  env.logLevel = "error";
  const session = await InferenceSession.create(address);
  const taken = [real.env.wasm.initTimeout, real.env.wasm.numThreads, real.env.logLevel];
  env.wasm.initTimeout = 50_000;
  real.env.webgpu.device = "a device";
  const linked = [real.env.wasm.initTimeout, env.webgpu.device];
  await session.release();
  return { engine: session.kernelzoo.engine, taken, linked, web: env.versions.web };
}
