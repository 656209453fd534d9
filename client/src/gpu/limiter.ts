/** Lets as many pieces of work go on at once as `most` says then; the others wait in order. */
export function limiter(most: () => number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  const begin = (): void => {
    while (running < most() && waiting.length > 0) {
      running += 1;
      waiting.shift()?.();
    }
  };
  return async (work) => {
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      begin();
    });
    try {
      return await work();
    } finally {
      running -= 1;
      begin();
    }
  };
}
