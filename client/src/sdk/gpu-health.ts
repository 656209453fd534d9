/**
 * Whether the GPU of this page died: its device was lost, or its driver did not answer. It is not
 * tried again in this tab, as each try takes half a minute, or the memory of the machine.
 */
import { storedNotebook } from "../device/notebook.js";
import { KernelZooError } from "../engine/error.js";
import { CompileDeadline, SharedDeadline } from "../gpu/compiling.js";

/** A reload would meet the same kernel in the same driver; a new tab may try again. */
const notes = storedNotebook(() => sessionStorage);
const NOTE = "gpu-failure";

/** Why WebAssembly runs in place of the GPU; null while the GPU lives. */
export const gpuFailure = (): string | null => notes.read(NOTE);

/** Gives the GPU up, and says so once. */
export function giveUpGpu(why: string): void {
  if (gpuFailure() !== null) return;
  const reason = `${why} WebAssembly runs in its place until the page is opened in a new tab.`;
  notes.write(NOTE, reason);
  console.warn(`kernelzoo: ${reason}`);
}

/** Whether it was the GPU that did not answer; then it is given up. */
export function hung(thrown: unknown): boolean {
  const late =
    thrown instanceof CompileDeadline ||
    thrown instanceof SharedDeadline ||
    (thrown instanceof KernelZooError && thrown.stage === "timeout");
  if (late) giveUpGpu(thrown.message);
  return late;
}

/** Gives the GPU up with its device, unless somebody destroyed that on purpose. */
export function watch({ lost }: GPUDevice): void {
  lost.then(({ reason, message }) => {
    if (reason !== "destroyed") giveUpGpu(`The GPU device was lost: ${message || reason}`);
  });
}
