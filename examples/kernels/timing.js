/** Shortest time of one sample; clocks of pages that are not isolated step by 0.1 ms. */
const SAMPLE_MS = 10;
const WARM_UP_MS = 150;

const nextFrame = () => new Promise((resolve) => setTimeout(resolve));

/** Runs until the browser has put optimised code in place; answers calls per sample. */
async function warmUp(repeat) {
  const start = performance.now();
  let calls = 0;
  while (performance.now() - start < WARM_UP_MS || calls < 3) {
    await repeat(1);
    calls += 1;
  }
  return Math.max(1, Math.ceil((SAMPLE_MS * calls) / (performance.now() - start)));
}

async function sampleMs(repeat, calls) {
  const start = performance.now();
  await repeat(calls);
  return (performance.now() - start) / calls;
}

/** What runs a kernel a number of times: in this thread, or on the GPU until it is done. */
function repeater(kernel) {
  if (kernel.repeat !== undefined) return kernel.repeat;
  if (kernel.gpu === null) {
    return (calls) => {
      for (let i = 0; i < calls; i++) kernel.run();
    };
  }
  return (calls) => {
    for (let i = 0; i < calls; i++) kernel.gpu.submit();
    return kernel.gpu.device.queue.onSubmittedWorkDone();
  };
}

/**
 * Shortest mean time of a call of each kernel, or of whatever has a `repeat`, over interleaved rounds,
 * in milliseconds.
 */
export async function bestTimes(kernels, rounds) {
  const repeaters = kernels.map(repeater);
  const calls = [];
  for (const repeat of repeaters) calls.push(await warmUp(repeat));
  const best = kernels.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < rounds; round++) {
    for (const [i, repeat] of repeaters.entries()) {
      best[i] = Math.min(best[i], await sampleMs(repeat, calls[i]));
      await nextFrame();
    }
  }
  return best;
}
