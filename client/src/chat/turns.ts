/** Work that waits for what was asked for before it. */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  /** Resolves when it is this one's turn, with what ends it. Rejects with the reason of the signal. */
  async take(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    const before = this.#last;
    let end: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#last = before.then(() => ended);
    try {
      await unlessAborted(before, signal);
    } catch (thrown) {
      end();
      throw thrown;
    }
    return end;
  }
}

async function unlessAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return work;
  let abort: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
  });
  await Promise.race([work, aborted]).finally(() => signal.removeEventListener("abort", abort));
}

const turns = new WeakMap<object, Turns>();

/** One queue for each model, however many clients ask it. */
export function turnsOf(model: object): Turns {
  const known = turns.get(model) ?? new Turns();
  turns.set(model, known);
  return known;
}
