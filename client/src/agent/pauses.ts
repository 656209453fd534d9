/** Why measuring waits: each reason comes and goes by itself. */

export const PAUSES = {
  hand: "Paused",
  hidden: "Paused while this page is hidden",
  battery: "Paused: the battery is low and not charging",
  pressure: "Paused: this device is busy with something else",
  budget: "Done for today: the budget is spent",
} as const;
export type Pause = keyof typeof PAUSES;

export interface Pauses {
  readonly because: ReadonlySet<Pause>;
  set(reason: Pause, holds: boolean): void;
}

/** Tells `changed` whenever a reason comes or goes. */
export function pauses(changed: () => void): Pauses {
  const because = new Set<Pause>();
  return {
    because,
    set(reason, holds) {
      if (because.has(reason) === holds) return;
      if (holds) because.add(reason);
      else because.delete(reason);
      changed();
    },
  };
}

/** The first that holds, in the order of the table: what a visitor can do something about. */
export const mainPause = (because: ReadonlySet<Pause>): Pause | null =>
  (Object.keys(PAUSES) as Pause[]).find((reason) => because.has(reason)) ?? null;
