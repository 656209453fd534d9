/** Who hears of which events. */
export class Listeners<Events extends object> {
  readonly #all = new Set<readonly [event: keyof Events, listener: (told: never) => void]>();

  /** Calls `listener` from now on; answers what ends that. */
  on<Event extends keyof Events>(event: Event, listener: (told: Events[Event]) => void) {
    const heard = [event, listener] as const;
    this.#all.add(heard);
    return (): void => void this.#all.delete(heard);
  }

  /** What a listener throws is reported, as of any event: others and whoever tells go on. */
  tell<Event extends keyof Events>(event: Event, told: Events[Event]): void {
    for (const [each, listener] of this.#all) {
      if (each !== event) continue;
      try {
        listener(told as never);
      } catch (thrown) {
        reportError(thrown);
      }
    }
  }
}
