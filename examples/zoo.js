/**
 * How the examples begin: the zoo that `?zoo=` names, its SDK, and a network that the zoo may have been
 * given a moment ago.
 */
const asked = new URLSearchParams(location.search).get("zoo");

/** An address relative to this page, or a whole one. */
export const zooUrl = new URL(asked ?? "http://127.0.0.1:8787", location.href).href;

/** The SDK of a zoo lies below its address, which may have a path. */
const sdkOf = (url) => new URL("client/sdk.js", url.endsWith("/") ? url : `${url}/`).href;

const startOne = "Start a zoo with `kernelzoo up`, or name another: ?zoo=https://zoo.example";

/** Throws an Error that says what does not answer, and what to do. */
export async function loadSdk(url = sdkOf(zooUrl), remedy = startOne) {
  try {
    return await import(url);
  } catch (cause) {
    throw new Error(`There is no SDK at ${url}. ${remedy}`, { cause });
  }
}

const AGAIN_MS = 2000;
const COMPILED_WITHIN_MS = 60_000;

/** Opens a network; again, as the SDK advises, while the zoo compiles the first kernels of a new one. */
export async function compiled(open, showStatus) {
  for (const until = performance.now() + COMPILED_WITHIN_MS; ; ) {
    try {
      return await open();
    } catch (thrown) {
      if (!thrown.message.includes("Try again") || performance.now() > until) throw thrown;
      showStatus(thrown.message);
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}
