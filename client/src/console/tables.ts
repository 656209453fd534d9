import { element } from "../page/elements.js";
import { count, rate, short, speedup } from "../page/text.js";
import type { Device, Job, ZooEntry } from "../wire/types.js";

type Cell = Node | string;

interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => Cell;
}

function table<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): HTMLElement {
  const head = columns.map(({ title }) => element("th", "", title));
  const body = rows.map((row) =>
    element("tr", "", ...columns.map(({ cell }) => element("td", "", cell(row)))),
  );
  return element(
    "table",
    "",
    element("thead", "", element("tr", "", ...head)),
    element("tbody", "", ...body),
  );
}

const code = (text: string): Cell => element("code", "", text);

function empty(text: string, command: string): HTMLElement {
  return element("p", "quiet", `${text} `, element("code", "", command));
}

const ZOO: readonly Column<ZooEntry>[] = [
  { title: "Workload", cell: ({ workload }) => code(workload) },
  { title: "Device class", cell: ({ device_class }) => code(device_class) },
  { title: "State", cell: ({ state, version }) => `${state} v${version}` },
  { title: "Speed", cell: ({ gflops }) => rate(gflops) },
  { title: "Against reference", cell: ({ evidence }) => speedup(evidence.relative_time) },
  {
    title: "Votes",
    cell: ({ evidence }) =>
      `${evidence.weight} of ${evidence.total_weight} in ${count(evidence.ballots, "ballot")}`,
  },
  { title: "Kernel", cell: ({ artifact }) => code(short(artifact)) },
];

function jobProgress({ compiled, failed, candidates }: Job): Cell {
  const bar = element("progress", "");
  bar.max = Math.max(candidates, 1);
  bar.value = compiled + failed;
  const text = failed > 0 ? `${compiled} + ${failed} failed` : `${compiled}`;
  return element("span", "", bar, ` ${text} of ${candidates}`);
}

const JOBS: readonly Column<Job>[] = [
  { title: "Job", cell: ({ job }) => String(job) },
  {
    title: "Workload",
    cell: ({ workload, kind, space }) =>
      element("span", "", code(workload), ` ${kind}`, space === "" ? "" : ` on ${space}`),
  },
  { title: "State", cell: ({ state, detail }) => (detail === "" ? state : `${state}: ${detail}`) },
  { title: "Compiled", cell: jobProgress },
  { title: "Measurements", cell: ({ measurements }) => String(measurements) },
  {
    title: "Agents, ballots",
    cell: ({ agents, ballots }) => `${count(agents, "agent")}, ${count(ballots, "ballot")}`,
  },
  {
    title: "Best",
    cell: ({ best_ns, flops }) => rate(best_ns === null ? null : flops / best_ns),
  },
];

const named = (...names: readonly string[]): string => names.filter(Boolean).join(" ") || "unknown";

const DEVICES: readonly Column<Device>[] = [
  { title: "Device", cell: ({ device_id }) => code(device_id) },
  {
    title: "Processor",
    cell: ({ cpu_architecture, logical_cores }) =>
      `${named(cpu_architecture)}, ${count(logical_cores, "core")}`,
  },
  {
    title: "Graphics",
    cell: ({ gpu_vendor, gpu_architecture }) => named(gpu_vendor, gpu_architecture),
  },
  { title: "Engines", cell: ({ engines }) => engines.join(", ") },
  { title: "Limit of one core", cell: ({ core_gflops }) => rate(core_gflops) },
  { title: "Limit of the GPU", cell: ({ gpu_gflops }) => rate(gpu_gflops) },
  { title: "Agents", cell: ({ agents }) => String(agents) },
  { title: "Measurements", cell: ({ measurements }) => String(measurements) },
  { title: "Last seen", cell: ({ last_seen_at }) => new Date(last_seen_at).toLocaleString() },
];

export function zooTable(entries: readonly ZooEntry[]): Node {
  if (entries.length > 0) return table(ZOO, entries);
  return empty(
    "No kernel has been published yet. Agents vote once a workload is registered:",
    "kernelzoo tune matmul 384x768x768",
  );
}

export function jobTable(jobs: readonly Job[]): Node {
  if (jobs.length > 0) return table(JOBS, jobs);
  return empty("Nothing is being tuned. Register a workload:", "kernelzoo tune matmul 384x768x768");
}

export function deviceTable(devices: readonly Device[]): Node {
  if (devices.length > 0) return table(DEVICES, devices);
  const link = element("a", "", "agent page");
  link.href = "/agent";
  return element("p", "quiet", "No device has taken part yet. Open the ", link, " on one.");
}
