/** Lets messages in: one to ourselves comes after those that wait. */
export function breathing(): () => Promise<void> {
  const { port1, port2 } = new MessageChannel();
  let resolve: (() => void) | null = null;
  port1.onmessage = () => resolve?.();
  return () =>
    new Promise((done) => {
      resolve = done;
      port2.postMessage(null);
    });
}

/** What says whether a run is to stop, of one that nobody can stop: it lets no messages in. */
export const unstoppable = (): boolean => false;
