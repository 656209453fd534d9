/** The page's side of the budget: what is kept of it in this browser, and what is left today. */
import type { Notebook } from "../device/notebook.js";
import type { Allowed } from "./allowance.js";
import {
  type Budget,
  dayOf,
  INTENSITIES,
  leftMs,
  parseBudget,
  parseSpent,
  type Spent,
  UNLIMITED,
} from "./budget.js";

export interface Lending {
  readonly budget: Budget;
  readonly spent: Spent;
  readonly allowed: Allowed;
  choose(budget: Budget): void;
  /** Another tab of this browser may have added to it as well. */
  spend(ms: number): void;
}

/** Of a visitor. Read anew each time: a day ends, and tabs share one budget. */
export function storedLending(notebook: Notebook): Lending {
  const budget = (): Budget => parseBudget(notebook.read("budget"));
  const spent = (): Spent => parseSpent(notebook.read("spent"), dayOf(new Date()));
  return {
    get budget() {
      return budget();
    },
    get spent() {
      return spent();
    },
    get allowed() {
      return { leftMs: leftMs(budget(), spent()), share: INTENSITIES[budget().intensity] };
    },
    choose: (chosen) => notebook.write("budget", JSON.stringify(chosen)),
    spend(ms) {
      const { day, ms: before } = spent();
      notebook.write("spent", JSON.stringify({ day, ms: Math.round(before + ms) }));
    },
  };
}

/** Of a browser that a driver runs: as much as there is to do. */
export const unlimitedLending: Lending = {
  budget: UNLIMITED,
  spent: { day: "", ms: 0 },
  allowed: { leftMs: Number.POSITIVE_INFINITY, share: 1 },
  choose: () => undefined,
  spend: () => undefined,
};
