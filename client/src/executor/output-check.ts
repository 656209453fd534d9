/** Failures that a model's kernels are to blame for, and the golden outputs that find them. */
import { download } from "../engine/download.js";
import { KernelZooError } from "../engine/error.js";
import { refuseChanged } from "../weights/stream.js";
import { addressOf } from "../wire/model-answer.js";
import { goldenParts, type Stored, wrongOutput } from "./golden-tensors.js";
import type { Fault, LoadOrder, Progress } from "./messages.js";

/** A kernel that does not do what it should. */
export class WrongKernel extends KernelZooError {
  readonly fault: Fault;

  constructor(fault: Fault) {
    super(fault.stage, `${fault.workload} failed: ${fault.message}`);
    this.fault = fault;
  }
}

/** A golden output that is not what it should be. The page has the sentence: it is told the name. */
export class WrongOutput extends KernelZooError {
  readonly output: string;

  constructor(output: string) {
    super("compare", output);
    this.output = output;
  }
}

/** Compares the golden outputs with those of `run`; false where that was stopped. */
export async function checked(
  { answer, origin }: LoadOrder,
  run: (feeds: readonly Stored[]) => Promise<{ readonly outputs: readonly Stored[] } | null>,
  { progress }: { readonly progress: (progress: Progress) => void },
): Promise<boolean> {
  const { plan } = answer;
  const { inputs, outputs, golden } = plan;
  const total = plan.calls.length;
  const url = addressOf(answer.golden.url, origin);
  const bytes = await download(url, (response) => response.arrayBuffer());
  await refuseChanged(new Uint8Array(bytes), golden.sha256, url);
  progress({ phase: "check", loaded: 0, total });
  const ran = await run(goldenParts(bytes, inputs, golden.inputs));
  if (ran === null) return false;
  progress({ phase: "check", loaded: total, total });
  const expected = goldenParts(bytes, outputs, golden.outputs);
  const wrong = wrongOutput(plan, ran.outputs, expected);
  if (wrong === undefined) return true;
  throw new WrongOutput(wrong);
}
