/** Entry of the console: draws the view that the address names. */
import { byId, element } from "../page/elements.js";
import { coverageView } from "./coverage.js";
import { devicesView } from "./devices.js";
import { inviteView } from "./invite.js";
import { keyView } from "./key.js";
import { overviewView } from "./overview.js";
import { card, link } from "./pieces.js";
import { address, parseRoute, type Route, type ViewName } from "./route.js";
import { tuningView } from "./tuning.js";
import { zooView } from "./zoo.js";

const TITLES = {
  overview: "Overview",
  zoo: "Zoo",
  coverage: "Coverage",
  tuning: "Tuning",
  devices: "Devices",
  invite: "Tune this device",
} as const satisfies Record<ViewName, string>;

function viewOf(route: Route, signal: AbortSignal): readonly HTMLElement[] {
  switch (route.view) {
    case "overview":
      return overviewView(signal);
    case "zoo":
      return route.path.length === 2 ? keyView(route, signal) : zooView(route, signal);
    case "coverage":
      return coverageView(route, signal);
    case "tuning":
      return tuningView(route, signal);
    case "devices":
      return devicesView(route, signal);
    case "invite":
      return inviteView();
    default:
      return route.view satisfies never;
  }
}

function unknownView(): readonly HTMLElement[] {
  const text = element("p", "", "There is no such view. ", link(address("overview"), "Overview"));
  return [card("Not found", text)];
}

let current = new AbortController();

/** `moved`: by a link or the back button; then the heading has the focus, as after a page load. */
function show(moved: boolean): void {
  current.abort();
  current = new AbortController();
  const route = parseRoute(location.hash);
  const title = route === null ? "Not found" : TITLES[route.view];
  const heading = element("h1", "", title);
  heading.tabIndex = -1;
  const parts = route === null ? unknownView() : viewOf(route, current.signal);
  byId("view").replaceChildren(heading, ...parts);
  document.title = `${title} · kernelzoo`;
  for (const anchor of document.querySelectorAll("nav a[data-view]")) {
    const here = anchor.getAttribute("data-view") === route?.view;
    if (here) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  if (moved) heading.focus();
}

addEventListener("hashchange", () => show(true));
show(false);
