/** Entry of the console: the zoo, the jobs and the devices, read again every two seconds. */
import { ask } from "../gateway/answer.js";
import { byId, setText, show } from "../page/elements.js";
import type { DeviceList, JobList, ZooList } from "../wire/types.js";
import { deviceTable, jobTable, zooTable } from "./tables.js";

const REFRESH_MS = 2_000;

interface Part<T> {
  readonly id: string;
  readonly path: string;
  readonly draw: (value: T) => Node;
}

/** Draws one part; answers what went wrong, or ''. An unchanged part is left alone. */
function part<T>({ id, path, draw }: Part<T>): () => Promise<string> {
  let shown = "";
  return async () => {
    const answer = await ask<T>(new URL(path, location.origin));
    if (answer.kind === "empty") return "";
    if (answer.kind !== "ok") return answer.detail;
    const text = JSON.stringify(answer.value);
    if (text !== shown) byId(id).replaceChildren(draw(answer.value));
    shown = text;
    return "";
  };
}

const parts = [
  part<ZooList>({ id: "zoo", path: "/v1/zoo", draw: ({ entries }) => zooTable(entries) }),
  part<JobList>({ id: "jobs", path: "/v1/jobs", draw: ({ jobs }) => jobTable(jobs) }),
  part<DeviceList>({
    id: "devices",
    path: "/v1/devices",
    draw: ({ devices }) => deviceTable(devices),
  }),
];

async function refresh(): Promise<void> {
  const problems = document.hidden ? [] : await Promise.all(parts.map((each) => each()));
  const problem = problems.find((detail) => detail !== "") ?? "";
  setText("error", problem);
  show("error", problem !== "");
  setTimeout(() => void refresh(), REFRESH_MS);
}

void refresh();
