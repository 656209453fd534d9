/** Lets messages in: one to ourselves comes after those that wait. Several may breathe at once. */
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

/** What says whether a run is to stop, of one that nobody can stop: it lets no messages in. */
export const unstoppable = (): boolean => false;
