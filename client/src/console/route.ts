/**
 * A route says where the console is: the part of the address behind #, so that each view has a
 * link.
 */

export const VIEWS = ["overview", "zoo", "coverage", "tuning", "devices", "invite"] as const;
export type ViewName = (typeof VIEWS)[number];

export interface Route {
  readonly view: ViewName;
  /** The view is of these: a workload and a device class, or a job. */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

/** Null for an address that names no view. */
export function parseRoute(hash: string): Route | null {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?");
  const [name = "", ...segments] = path.split("/").filter(Boolean).map(decoded);
  const view = VIEWS.find((known) => known === (name || "overview"));
  if (view === undefined) return null;
  return { view, path: segments, query: Object.fromEntries(new URLSearchParams(query)) };
}

export function address(
  view: ViewName,
  path: readonly string[] = [],
  query: Route["query"] = {},
): string {
  const filled = Object.entries(query).filter(([, value]) => value !== "");
  const search = filled.length === 0 ? "" : `?${new URLSearchParams(filled)}`;
  return `#/${[view, ...path.map(encodeURIComponent)].join("/")}${search}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
