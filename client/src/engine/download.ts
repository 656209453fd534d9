/** Downloads one file, with a sentence for what goes wrong. */
import { gaveUp } from "../gateway/deadline.js";
import { KernelZooError, unanswered } from "./error.js";

/**
 * Returns what `read` makes of the file at `url`. Throws KernelZooError: network, artifact
 * (status).
 */
export async function download<T>(
  url: URL,
  read: (response: Response) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  try {
    const response = await fetch(url, signal === undefined ? {} : { signal });
    if (response.ok) return await read(response);
    throw new KernelZooError("artifact", `${url} answered ${response.status}. Reload the page.`);
  } catch (cause) {
    if (cause instanceof KernelZooError || gaveUp(signal)) throw cause;
    throw new KernelZooError("network", unanswered(url, cause), cause);
  }
}
