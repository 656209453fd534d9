import { KernelZooError, type Stage, sentence } from "../engine/error.js";
import type { KernelWire, MeasurementWire, Outcome } from "../wire/types.js";

/** The outcome that a failure at a stage counts as; the network's failures are nobody's. */
const OUTCOMES: Readonly<Partial<Record<Stage, Outcome>>> = {
  artifact: "validate",
  validate: "validate",
  compile: "compile",
  memory: "run",
  run: "run",
  compare: "compare",
  timeout: "timeout",
};

/** Whether the browser refuses the kernel or its driver does not compile it, whatever else runs. */
export const didNotCompile = (thrown: unknown): thrown is KernelZooError =>
  thrown instanceof KernelZooError && (thrown.stage === "validate" || thrown.stage === "compile");

const LONGEST_DETAIL = 500;

/** What was thrown as a measurement of `kernel`; thrown again when it is not the kernel's fault. */
export function failureOf(kernel: KernelWire, thrown: unknown): MeasurementWire {
  const outcome = thrown instanceof KernelZooError ? OUTCOMES[thrown.stage] : undefined;
  if (outcome === undefined) throw thrown;
  return {
    candidate: kernel.candidate,
    outcome,
    samples_ns: [],
    reference_ns: [],
    calls_per_sample: 1,
    sampled_entries: [],
    detail: sentence(thrown).slice(0, LONGEST_DETAIL),
  };
}
