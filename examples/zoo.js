/**
 * How the examples begin: the zoo that `?zoo=` names, its SDK, and a network that the zoo may have been
 * given a moment ago.
 */
const asked = new URLSearchParams(location.search).get("zoo");

/** An address relative to this page, or a whole one. */
export const zooUrl = new URL(asked ?? "http://127.0.0.1:8787", location.href).href;

/** The SDK of a zoo lies below its address, which may have a path. */
const sdkOf = (url) => new URL("client/sdk.js", url.endsWith("/") ? url : `${url}/`).href;

const ZOO = {
  sdk: sdkOf(zooUrl),
  zoo: zooUrl,
  remedy: "Start a zoo with `kernelzoo up`, or name another: ?zoo=https://zoo.example",
};

const SLOW_MS = 5000;
const SILENT_MS = 30_000;

/** Throws an Error that says what does not answer, and what to do. */
async function importSdk({ sdk, remedy }) {
  let timer;
  const silence = new Promise((_, reject) => {
    const text = `No answer from ${sdk} within ${SILENT_MS / 1000} s. ${remedy}`;
    timer = setTimeout(() => reject(new Error(text)), SILENT_MS);
  });
  const missing = (cause) => {
    throw new Error(`There is no SDK at ${sdk}. ${remedy}`, { cause });
  };
  try {
    // A module cannot be aborted: its answer is no longer waited for.
    return await Promise.race([import(sdk).catch(missing), silence]);
  } finally {
    clearTimeout(timer);
  }
}

/** Says in the page that `url` is slow, where after some seconds nothing else has been said. */
function tellWhenSlow(url) {
  const status = document.querySelector("#status");
  const first = status.textContent;
  setTimeout(() => {
    if (status.textContent !== first) return;
    status.textContent = `Still waiting: ${new URL(url).host} is slow to answer…`;
  }, SLOW_MS);
}

/**
 * The SDK and the zoo that it opened with `options`, from the addresses of `site`. Throws an Error that
 * says what does not answer, and what to do.
 */
export async function openZoo(options = {}, site = ZOO) {
  tellWhenSlow(site.zoo);
  const sdk = await importSdk(site);
  return { sdk, zoo: await sdk.KernelZoo.open(site.zoo, options) };
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
