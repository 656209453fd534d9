/** Shortest time of one sample; clocks of pages that are not isolated step by 0.1 ms. */
const SAMPLE_MS = 10;
const WARM_UP_MS = 150;

const nextFrame = () => new Promise((resolve) => setTimeout(resolve));

/** Runs until the browser has put optimised code in place; answers calls per sample. */
function warmUp(call) {
  const start = performance.now();
  let calls = 0;
  while (performance.now() - start < WARM_UP_MS || calls < 3) {
    call();
    calls += 1;
  }
  return Math.max(1, Math.ceil((SAMPLE_MS * calls) / (performance.now() - start)));
}

function sampleMs(call, calls) {
  const start = performance.now();
  for (let i = 0; i < calls; i++) call();
  return (performance.now() - start) / calls;
}

/** Shortest mean time of each function over interleaved rounds, in milliseconds. */
export async function bestTimes(functions, rounds) {
  const calls = functions.map(warmUp);
  const best = functions.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < rounds; round++) {
    for (const [i, call] of functions.entries()) {
      best[i] = Math.min(best[i], sampleMs(call, calls[i]));
      await nextFrame();
    }
  }
  return best;
}
