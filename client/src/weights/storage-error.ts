/** The errors of a storage of the browser, which may be denied or full. */
import { KernelZooError, sentence } from "../engine/error.js";

export const storageError = (message: string, cause?: unknown): KernelZooError =>
  new KernelZooError("storage", message, cause);

/** Throws KernelZooError (storage) where the browser denies what is asked of its storage. */
export async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw storageError(`This browser keeps nothing for this page: ${sentence(cause)}`, cause);
  }
}
