/**
 * Returns a function that lets messages in: it sends one to ourselves, which comes after those that
 * wait. Several may breathe at once.
 */
export function breathing(): () => Promise<void> {
  const { port1, port2 } = new MessageChannel();
  const waiting: (() => void)[] = [];
  port1.onmessage = () => waiting.shift()?.();
  return () =>
    new Promise((done) => {
      waiting.push(done);
      port2.postMessage(null);
    });
}

/** Never says to stop: for runs that nobody can stop. All but the first let no messages in. */
export const unstoppable = (): boolean => false;
