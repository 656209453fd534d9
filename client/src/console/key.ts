/** One key: what is served, why, and how all its candidates did. */
import { element } from "../page/elements.js";
import { ago, count, duration, integer, milliseconds, rate, short, speedup } from "../page/text.js";
import type { CandidateStanding, Evidence, Key, Version } from "../wire/types.js";
import { rankChart } from "./chart.js";
import { decisions, deny, operated, rollBack } from "./denials.js";
import { followed } from "./followed.js";
import { keptBack } from "./operator.js";
import {
  badge,
  type Cell,
  type Column,
  card,
  code,
  deviceName,
  empty,
  facts,
  link,
  table,
  why,
} from "./pieces.js";
import { rhoFacts } from "./rho.js";
import { address, type Route } from "./route.js";

export function keyView({ path }: Route, signal: AbortSignal): readonly HTMLElement[] {
  const [workload = "", deviceClass = ""] = path;
  const name = `${encodeURIComponent(workload)}/${encodeURIComponent(deviceClass)}`;
  const back = element(
    "p",
    "",
    link(address("zoo", [], { workload }), "All devices of this workload"),
  );
  return [back, followed<Key>({ path: `/v1/keys/${name}`, everyMs: 10_000, draw }, signal)];
}

const live = ({ history }: Key): Version | undefined =>
  history.find(({ state }) => state !== "retired");

function draw(key: Key): Node {
  return element(
    "div",
    "",
    element("section", "card", ...summary(key)),
    card("Candidates", ...candidates(key)),
    card("History", history(key.history)),
    card("Denied and allowed", ...decisions(key)),
  );
}

function summary(key: Key): readonly HTMLElement[] {
  const served = live(key);
  const best = key.candidates.find(({ candidate }) => candidate === served?.candidate);
  const heading = element("h2", "key", code(key.workload));
  const device = element(
    "p",
    "",
    `on ${deviceName(key.device)} `,
    element("span", "quiet", code(key.device_class)),
  );
  const rho = rhoFacts(key.device_class);
  if (served === undefined) {
    const text =
      key.history.length === 0
        ? "Nobody has voted on this key yet; pages get the default kernel."
        : "No version is live; pages get the default kernel until the next vote.";
    return [heading, device, empty(text), rho];
  }
  const { evidence } = served;
  const pairs: (readonly [string, Cell])[] = [
    ["State", badge(served.state)],
    ["Against reference", speedup(evidence.relative_time)],
    ["Speed", rate(best?.gflops ?? null)],
    ["Time", duration(best?.best_ns ?? null)],
    ["Ballots", `${integer(evidence.ballots)} of ${key.quorum} needed`],
    ["Weight of votes", `${integer(evidence.weight)} of ${integer(evidence.total_weight)}`],
  ];
  const own = key.by_runs.at(-1)?.costs;
  if (own !== undefined) pairs.push(["Before warm runs", duration(beforeWarmRuns(own))]);
  const below = element("p", "quiet below", settings(best), ...fewRuns(key));
  return [heading, device, facts(pairs), below, rho, ...rollBack(key, served)];
}

type Costs = Key["by_runs"][number]["costs"];

/** Adds up what a page pays for a kernel beside its warm runs. */
const beforeWarmRuns = ({ compile_ns, pack_ns, first_run_ns, run_ns }: Costs): number =>
  compile_ns + pack_ns + Math.max(0, first_run_ns - run_ns);

/** Kernels that cost a page less where it runs them few times. */
const fewRuns = (key: Key): readonly Cell[] =>
  key.by_runs.flatMap(({ runs, candidate, costs }) => {
    if (runs === null) return [];
    const times = `${duration(beforeWarmRuns(costs))} before warm runs, ${duration(costs.run_ns)} each`;
    return [` · For up to ${count(runs, "run")}: `, code(short(candidate)), ` (${times})`];
  });

function settings(standing: CandidateStanding | undefined): Cell {
  if (standing === undefined) return "";
  return element("span", "", "Config ", code(configText(standing)));
}

const configText = ({ config }: CandidateStanding): string =>
  Object.entries(config)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");

function candidates(key: Key): readonly HTMLElement[] {
  if (!key.shown) {
    const counted = `${count(key.measured, "candidate")} ${key.measured === 1 ? "was" : "were"} measured`;
    return [keptBack(key.device.identities, key.quorum, counted)];
  }
  if (key.candidates.length === 0) {
    return [empty("No measurement of this class has been checked yet. Keep an agent open.")];
  }
  const served = live(key)?.candidate ?? "";
  const details = element(
    "details",
    "",
    element("summary", "", `All ${count(key.candidates.length, "candidate")} as a table`),
    table("Candidates by time", columns(served, key), ranked(key.candidates)),
  );
  details.id = "candidates-table";
  return [rankChart(key.candidates, served, key.reference ?? ""), details];
}

interface Ranked extends CandidateStanding {
  readonly rank: number;
}

const ranked = (standings: readonly CandidateStanding[]): readonly Ranked[] =>
  standings.map((standing, index) => ({ ...standing, rank: index + 1 }));

function columns(served: string, key: Key): readonly Column<Ranked>[] {
  const isDenied = (artifact: string): boolean =>
    key.decisions.some((decision) => decision.denied && decision.artifact === artifact);
  const role = ({ candidate, artifact }: Ranked): string =>
    [
      candidate === served ? "served" : "",
      candidate === key.reference ? "reference" : "",
      isDenied(artifact) ? "denied" : "",
    ]
      .filter(Boolean)
      .join(", ");
  return [
    { title: "Rank", numeric: true, cell: ({ rank, best_ns }) => (best_ns ? String(rank) : "–") },
    { title: "Time", numeric: true, cell: ({ best_ns }) => duration(best_ns) },
    { title: "Speed", numeric: true, cell: ({ gflops }) => rate(gflops) },
    { title: "Votes 1st to 5th", numeric: true, cell: ({ votes }) => votes.join(" · ") },
    { title: "Identities", numeric: true, cell: ({ identities }) => integer(identities) },
    { title: "Compiled in", numeric: true, cell: ({ compile_ms }) => milliseconds(compile_ms) },
    { title: "Outcome", cell: ({ outcome }) => outcome },
    { title: "", cell: role },
    { title: "Config", cell: (standing) => code(configText(standing)) },
    ...operated<Ranked>(({ artifact }) => (isDenied(artifact) ? "" : deny(key, artifact))),
  ];
}

const VERSIONS: readonly Column<Version>[] = [
  { title: "Version", numeric: true, cell: ({ version }) => String(version) },
  { title: "State", cell: ({ state }) => badge(state) },
  { title: "Pages got it", cell: ({ served }) => (served ? "yes" : "no") },
  {
    title: "Why it came",
    cell: ({ reason, evidence, detail }) => why(reason, evidence.ballots, detail),
  },
  { title: "Kernel", cell: ({ candidate }) => code(candidate.slice(0, 8)) },
  {
    title: "Against reference",
    numeric: true,
    cell: ({ evidence }) => speedup(evidence.relative_time),
  },
  { title: "Ballots", numeric: true, cell: ({ evidence }) => integer(evidence.ballots) },
  { title: "Cast in", cell: ({ evidence }) => engines(evidence) },
  { title: "Published", numeric: true, cell: ({ published_at }) => ago(published_at, Date.now()) },
];

const engines = ({ engines }: Evidence): string =>
  engines.map(({ name, major, ballots }) => `${name} ${major}: ${ballots}`).join(", ") || "–";

function history(versions: readonly Version[]): Cell {
  if (versions.length > 0) return table("Versions, the latest first", VERSIONS, versions);
  return empty("There has been no entry yet: the first ballot makes one.");
}
