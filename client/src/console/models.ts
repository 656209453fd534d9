/** Models that pages run whole: how far each is tuned, class by class. */
import { element } from "../page/elements.js";
import { ago, count, duration, integer } from "../page/text.js";
import type { ModelCoverage, ModelList, PlanCoverage, WrongPlan } from "../wire/types.js";
import { followed } from "./followed.js";
import { type Column, card, code, empty, link, table } from "./pieces.js";
import { timelineAddress } from "./timeline.js";

const plan = ({
  dimensions,
  precision,
}: Pick<PlanCoverage, "dimensions" | "precision">): string => {
  const extents = Object.entries(dimensions).map(([name, extent]) => `${name}=${extent}`);
  return (extents.join(", ") || "–") + (precision === "int8" ? " in int8" : "");
};

/** A tilde stands before what rests on less than all operations of an inference. */
const expected = ({ expected_ms, measured }: PlanCoverage): string =>
  expected_ms === null ? "–" : `${measured < 1 ? "~" : ""}${duration(expected_ms * 1e6)}`;

const columns = (model: string): readonly Column<PlanCoverage>[] => [
  { title: "Device class", cell: ({ device_class }) => code(device_class) },
  { title: "Plan", cell: plan },
  {
    title: "Confirmed",
    numeric: true,
    cell: ({ confirmed, workloads }) => `${integer(confirmed)} of ${integer(workloads)}`,
  },
  {
    title: "Of its operations",
    numeric: true,
    cell: ({ confirmed_flops }) => `${Math.round(100 * confirmed_flops)} %`,
  },
  { title: "Expected", numeric: true, cell: expected },
  {
    title: "Prepared in",
    numeric: true,
    cell: ({ prepare_ms }) => duration(prepare_ms === null ? null : prepare_ms * 1e6),
  },
  { title: "Over time", cell: (plan) => link(timelineAddress(model, plan), "every kernel") },
  { title: "Page loads", numeric: true, cell: ({ page_loads }) => integer(page_loads) },
];

const wrongColumns: readonly Column<WrongPlan>[] = [
  { title: "Device class", cell: ({ device_class }) => code(device_class) },
  { title: "Plan", cell: (own) => `${plan(own)}${own.dtype === "f16" ? " in f16" : ""}` },
  { title: "Wrong", cell: ({ outputs }) => outputs.join(", ") },
  { title: "Networks", numeric: true, cell: ({ networks }) => integer(networks) },
  { title: "Since", numeric: true, cell: ({ since }) => ago(since, Date.now()) },
  { title: "Last", numeric: true, cell: ({ last_at }) => ago(last_at, Date.now()) },
];

export function modelsCard(signal: AbortSignal): HTMLElement {
  const draw = (list: ModelList): Node => drawModels(list, signal);
  return card("Models", followed<ModelList>({ path: "/v1/models", everyMs: 30_000, draw }, signal));
}

function drawModels({ models }: ModelList, signal: AbortSignal): Node {
  if (models.length === 0) {
    return empty("No model is registered:", code("kernelzoo models add FILE --name N"));
  }
  return element("div", "", ...models.map(({ name, plans }) => drawModel(name, plans, signal)));
}

/** Asked for once it is opened. */
function drawModel(name: string, plans: number, signal: AbortSignal): HTMLElement {
  const summary = element("summary", "", `${name}, ${count(plans, "plan")}`);
  const details = element("details", "", summary);
  details.id = `coverage-of-${name}`;
  const open = (): void => {
    const path = `/v1/models/${encodeURIComponent(name)}/coverage`;
    details.append(followed<ModelCoverage>({ path, everyMs: 15_000, draw: drawCoverage }, signal));
  };
  details.addEventListener("toggle", open, { once: true, signal });
  return details;
}

function drawCoverage({ model, coverage, wrong }: ModelCoverage): Node {
  const covered =
    coverage.length === 0
      ? empty("No device has measured or asked for it yet.")
      : table(`Classes that have met ${model}`, columns(model), coverage);
  if (wrong.length === 0) return covered;
  const title = `Classes on which ${model} is wrong with default kernels`;
  return element("div", "", table(title, wrongColumns, wrong), covered);
}
