/** Opens the zoo of the host that serves this file. */
import { KernelZoo, KernelZooError } from "../client/sdk.js";

export const host = new URL("..", import.meta.url).href.replace(/\/$/, "");

export const deviceClass = "0123456789abcdef:r1-0:wasm+simd128";

export const open = (options = {}) =>
  KernelZoo.open(host, { deviceClass, backend: "wasm", ...options });

/** The stage and the message of the error that `work` rejects with. */
export async function refusal(work) {
  try {
    await work();
    return "nothing was refused";
  } catch (error) {
    return `${error instanceof KernelZooError ? error.stage : error.name}: ${error.message}`;
  }
}
