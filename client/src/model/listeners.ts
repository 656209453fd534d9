/** Keeps the listeners of events and tells them of each one. */
export class Listeners<Events extends object> {
  readonly #all = new Set<readonly [event: keyof Events, listener: (told: never) => void]>();

  /** Calls `listener` from now on; returns a function that ends that. */
  on<Event extends keyof Events>(event: Event, listener: (told: Events[Event]) => void) {
    const heard = [event, listener] as const;
    this.#all.add(heard);
    return (): void => void this.#all.delete(heard);
  }

  /**
   * Tells all listeners of an event. What one of them throws is reported, as of any event, and the
   * others and the caller go on.
   */
  tell<Event extends keyof Events>(event: Event, value: Events[Event]): void {
    for (const [heard, listener] of this.#all) {
      if (heard !== event) continue;
      try {
        listener(value as never);
      } catch (thrown) {
        reportError(thrown);
      }
    }
  }
}
