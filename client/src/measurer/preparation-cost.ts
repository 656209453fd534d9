/** Tells what a page pays for a kernel before its runs are warm. */
import type { KernelInstance } from "../engine/instance.js";
import type { Clock } from "../timing/clock.js";
import type { Warmth } from "../timing/warmup.js";
import type { PreparationWire } from "../wire/types.js";

const NONCE_BYTES = 16;
/** A custom section, which engines skip, of this size with a name of one letter. */
const SECTION = [0, NONCE_BYTES + 2, 1, "n".charCodeAt(0)];

/**
 * Returns a module of the same code whose bytes no engine has seen: an engine that has seen a
 * module does not compile it anew.
 */
export function unseen(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const all = new Uint8Array(bytes.length + SECTION.length + NONCE_BYTES);
  all.set(bytes);
  all.set(SECTION, bytes.length);
  all.set(nonce, bytes.length + SECTION.length);
  return all;
}

/** A kernel in code that was compiled for it, and how long that took. */
export interface Fresh {
  readonly instance: KernelInstance;
  readonly compileMs: number;
}

/** Engines that compile a function at its first call do so for an empty range, too. */
export function compiledAnew(
  bytes: Uint8Array<ArrayBuffer>,
  bind: (module: WebAssembly.Module) => KernelInstance,
  clock: Clock,
): Fresh {
  const copy = unseen(bytes);
  const start = clock();
  const instance = bind(new WebAssembly.Module(copy));
  instance.run(0, 0);
  return { instance, compileMs: clock() - start };
}

const ns = (ms: number): number => Math.round(1e6 * ms);

export const preparationOf = (
  compileMs: number,
  packMs: number,
  { firstMs, fastMs }: Pick<Warmth, "firstMs" | "fastMs">,
): PreparationWire => ({
  compile_ns: ns(compileMs),
  optimise_ns: ns(fastMs),
  pack_ns: ns(packMs),
  first_run_ns: ns(firstMs),
});
