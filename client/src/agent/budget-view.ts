import { byId, setText } from "../page/elements.js";
import { span } from "../page/text.js";
import { type Budget, budgetMs, type Intensity } from "./budget.js";
import type { Lending } from "./lending.js";

const chosen = (): Budget => ({
  minutes: Number((byId("minutes") as HTMLSelectElement).value),
  intensity: (byId("intensity") as HTMLSelectElement).value as Intensity,
});

/** Tells of each choice at once: there is nothing to save. */
export function watchBudgetForm(told: (budget: Budget) => void): void {
  for (const id of ["minutes", "intensity"]) {
    byId(id).addEventListener("change", () => told(chosen()));
  }
}

function select(id: string, value: string): void {
  const field = byId(id) as HTMLSelectElement;
  if (field.value !== value) field.value = value;
}

/** The bar, and the form as it was chosen in this browser. */
export function showBudget({ budget, spent }: Lending): void {
  const bar = byId("spent") as HTMLProgressElement;
  const limited = Number.isFinite(budget.minutes);
  byId("budget").hidden = !limited;
  if (!limited) return;
  select("minutes", String(budget.minutes));
  select("intensity", budget.intensity);
  bar.max = budgetMs(budget);
  bar.value = Math.min(spent.ms, bar.max);
  setText("spent-text", `${span(spent.ms)} of ${span(bar.max)}`);
}
