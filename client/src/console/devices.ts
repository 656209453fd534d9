/** Devices that ran an agent. */
import { element } from "../page/elements.js";
import { ago, integer, rate } from "../page/text.js";
import type { Device, DeviceList } from "../wire/types.js";
import { followed } from "./followed.js";
import { offsetOf, pager, pageSize } from "./pager.js";
import { type Cell, type Column, card, code, empty, link, table } from "./pieces.js";
import { address, type Route } from "./route.js";

const named = (...names: readonly string[]): string => names.filter(Boolean).join(" ") || "unknown";

const COLUMNS: readonly Column<Device>[] = [
  {
    title: "Device",
    cell: ({ device_id }) => link(address("zoo", [], { device: device_id }), code(device_id)),
  },
  { title: "Processor", cell: ({ cpu_architecture }) => named(cpu_architecture) },
  { title: "Cores", numeric: true, cell: ({ logical_cores }) => integer(logical_cores) },
  {
    title: "Graphics",
    cell: ({ gpu_vendor, gpu_architecture }) => named(gpu_vendor, gpu_architecture),
  },
  { title: "Engines", cell: ({ engines }) => engines.join(", ") },
  { title: "Limit of one core", numeric: true, cell: ({ core_gflops }) => rate(core_gflops) },
  { title: "Limit of the GPU", numeric: true, cell: ({ gpu_gflops }) => rate(gpu_gflops) },
  { title: "Agents", numeric: true, cell: ({ agents }) => integer(agents) },
  { title: "Measurements", numeric: true, cell: ({ measurements }) => integer(measurements) },
  { title: "Last seen", numeric: true, cell: ({ last_seen_at }) => ago(last_seen_at, Date.now()) },
];

export function devicesView({ query }: Route, signal: AbortSignal): readonly HTMLElement[] {
  const size = pageSize();
  const list = followed<DeviceList>(
    {
      path: `/v1/devices?limit=${size}&offset=${offsetOf(query)}`,
      everyMs: 10_000,
      draw: (value) => draw(value, query, size),
    },
    signal,
  );
  return [card("Devices", list)];
}

function draw({ devices, total }: DeviceList, query: Route["query"], size: number): Node {
  if (devices.length > 0) {
    const listed = table("Devices, the latest first", COLUMNS, devices);
    const page = { view: "devices", query, size, shown: devices.length, total } as const;
    return element("div", "", listed, pager({ ...page, what: "device" }));
  }
  const remedy: Cell = link(address("invite"), "Tune a device");
  return element("div", "", empty("No device has taken part yet.", remedy));
}
