/**
 * For each target, the profile that an agent opens a session with and the instrument that measures.
 */
import { DeviceOwner } from "../backend/webgpu/device.js";
import { compileOneByOne } from "../backend/webgpu/pipeline-queue.js";
import { readGpuProfile } from "../device/gpu-profile.js";
import type { Notebook } from "../device/notebook.js";
import { type DeviceProfile, noted, peakOf, probeKey } from "../device/profile.js";
import { KernelZooError } from "../engine/error.js";
import type { Failures } from "../gateway/failures.js";
import type { Instrument, ReferenceFailed } from "../measurer/instrument.js";
import { cachedLoader, cachedPrograms } from "../measurer/kernel-cache.js";
import type { Pacing } from "../measurer/measurement.js";
import type { WithTurn } from "../measurer/turns.js";
import { wasmInstrument } from "../measurer/wasm/instrument.js";
import { gpuInstrument } from "../measurer/webgpu/instrument.js";
import { levelsOf, quarterOctave, WORKING_SETS } from "../probe/levels.js";
import { measureLines } from "../probe/probe.js";
import type { MeasuredTarget, ProbeLevels, SessionRequest } from "../wire/types.js";

/** Noted when a driver did not end a pipeline: the next page compiles one at a time. */
const CAREFUL = "one-by-one";

const NO_SIMD =
  "The WebAssembly of this browser has no 128-bit SIMD (simd128), which every kernel uses; " +
  "a newer browser has it.";

/** The environment that the targets of one agent share. */
export interface Environment {
  readonly origin: URL;
  readonly signal: AbortSignal;
  readonly notebook: Notebook;
  readonly withTurn: WithTurn;
  /** Undefined where nothing goes before measuring. */
  readonly pacing: Pacing | undefined;
  readonly failures: Failures;
  readonly profile: DeviceProfile;
  /** The step of the page's clock. */
  readonly stepMs: number;
  readonly isolated: boolean;
}

export interface Measurer {
  /** The target's part of the request for a session. Rates in it are rounded to levels. */
  readonly request: Pick<SessionRequest, "target" | "features" | "rho" | "peak_gflops" | "probe">;
  /** The rate as it was measured, for the page to show. */
  readonly peakGflops: number;
  readonly instrument: Instrument;
}

/** Reports the reference of a lease as a kernel that failed on `deviceClass`. */
export const referenceFailedOn =
  ({ failures }: Pick<Environment, "failures">, deviceClass: string): ReferenceFailed =>
  ({ workload, reference }, thrown) =>
    failures.note({ workload, device_class: deviceClass, artifact: reference.sha256 }, thrown);

/**
 * Measures what this device's memory gives: 100 ms once per engine version, then noted. Null where the
 * measurement was too disturbed to tell.
 */
async function readLevels({
  notebook,
  profile: { engine, peaks },
  withTurn,
}: Environment): Promise<ProbeLevels | null> {
  const measure = async (): Promise<ProbeLevels | null> => {
    const { rates, settled } = await withTurn(() => measureLines(WORKING_SETS));
    return settled ? levelsOf(peaks, rates) : null;
  };
  return noted(notebook, `levels:${probeKey(engine)}`, measure, (levels) => levels !== null);
}

/** Rejects with KernelZooError (profile) where there is no SIMD, which every kernel uses. */
async function wasmMeasurer(around: Environment): Promise<Measurer> {
  const { origin, signal, pacing, profile, stepMs, isolated } = around;
  if (!profile.wasmFeatures.includes("simd128")) throw new KernelZooError("profile", NO_SIMD);
  // Without isolation the clock is too coarse to measure levels.
  const probe = isolated ? await readLevels(around) : null;
  const peakGflops = peakOf(profile.peaks);
  return {
    request: {
      target: "wasm",
      features: [...profile.wasmFeatures],
      rho: profile.rho,
      peak_gflops: quarterOctave(peakGflops),
      probe,
    },
    peakGflops,
    instrument: wasmInstrument(
      cachedLoader(origin, signal),
      stepMs,
      referenceFailedOn(around, profile.deviceClass),
      pacing,
    ),
  };
}

/** Rejects with KernelZooError (profile) where there is no WebGPU. */
async function gpuMeasurer(around: Environment): Promise<Measurer> {
  const { origin, signal, notebook, withTurn, pacing, profile } = around;
  if (notebook.read(CAREFUL) !== null) compileOneByOne();
  const owner = new DeviceOwner();
  const gpu = await readGpuProfile(notebook, profile, owner, withTurn);
  return {
    request: {
      target: "webgpu",
      features: [...gpu.features],
      rho: gpu.rho,
      peak_gflops: quarterOctave(gpu.peakGflops),
      probe: gpu.levels,
    },
    peakGflops: gpu.peakGflops,
    instrument: gpuInstrument(
      owner,
      cachedPrograms(origin, signal),
      {
        careful: () => notebook.write(CAREFUL, "true"),
        referenceFailed: referenceFailedOn(around, gpu.deviceClass),
      },
      pacing,
    ),
  };
}

export const MEASURERS: Readonly<
  Record<MeasuredTarget, (around: Environment) => Promise<Measurer>>
> = {
  wasm: wasmMeasurer,
  webgpu: gpuMeasurer,
};
