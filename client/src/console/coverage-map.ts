/**
 * The map itself: a cell for each class and workload, told by colour and mark, walked by arrows.
 */
import { element, svg, svgText } from "../page/elements.js";
import type { Coverage } from "../wire/types.js";
import { classDetail, deviceName } from "./pieces.js";
import { address } from "./route.js";

/** `draw`: the mark of a cell in a square of side 1. A path for each state draws 20,000 cells. */
export const MEANING = [
  { letter: "c", text: "Confirmed", look: "cell-c", draw: "h1v1h-1z" },
  { letter: "p", text: "Provisional", look: "cell-p", draw: "m0 1l1 -1v1z" },
  { letter: "m", text: "Missing", look: "cell-m", draw: "m.38 .38h.24v.24h-.24z" },
  { letter: "-", text: "Not tuned for", look: "cell-n", draw: "m.2 .46h.6v.08h-.6z" },
] as const;

const GAP = 2;
const CHARACTER = 6.8;

/** The fewer, the larger; small ones still have a mark that can be told. */
const sideFor = (columns: number): number => (columns <= 12 ? 26 : columns <= 40 ? 18 : 13);

interface GridPlace {
  readonly row: number;
  readonly column: number;
}

export function coverageMap(coverage: Coverage): HTMLElement {
  const side = sideFor(coverage.workloads.length);
  const said = element("p", "said", "Use the arrow keys, or point at a cell.");
  said.setAttribute("role", "status");
  const cells = drawCells(coverage, side);
  const cursor = svg("rect", { class: "cursor", width: side, height: side, visibility: "hidden" });
  cells.append(cursor);
  const grid = element(
    "div",
    "map",
    element("div", "corner"),
    drawColumns(coverage.workloads, side),
    drawRows(coverage, side),
    cells,
  );
  const map = element("div", "scroll map-frame", grid);
  walk(map, cells, coverage, side, (place) => {
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x", String(place.column * side));
    cursor.setAttribute("y", String(place.row * side));
    said.textContent = describe(coverage, place);
  });
  return element("div", "", key(), said, map);
}

/** Calls `visit` with each cell that is pointed at or walked to; Enter or a click opens its key. */
function walk(
  map: HTMLElement,
  cells: SVGSVGElement,
  coverage: Coverage,
  side: number,
  visit: (place: GridPlace) => void,
): void {
  let at: GridPlace = { row: 0, column: 0 };
  const go = (row: number, column: number): void => {
    at = {
      row: Math.min(Math.max(row, 0), coverage.classes.length - 1),
      column: Math.min(Math.max(column, 0), coverage.workloads.length - 1),
    };
    visit(at);
  };
  const open = (): void => {
    const deviceClass = coverage.classes[at.row]?.device.device_class;
    const workload = coverage.workloads[at.column];
    if (deviceClass && workload) location.hash = address("zoo", [workload, deviceClass]);
  };
  map.id = "coverage-map";
  map.tabIndex = 0;
  map.setAttribute("role", "application");
  map.setAttribute("aria-roledescription", "map");
  map.setAttribute("aria-label", "Coverage; arrow keys move, Enter opens a key");
  map.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (event.key === "Enter") open();
    if (step === undefined) return;
    event.preventDefault();
    go(at.row + step[0], at.column + step[1]);
    cells.querySelector(".cursor")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  map.addEventListener("focus", () => visit(at));
  cells.addEventListener("pointermove", ({ offsetX, offsetY }) =>
    go(Math.floor(offsetY / side), Math.floor(offsetX / side)),
  );
  cells.addEventListener("click", open);
}

const STEPS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

function describe({ classes, workloads }: Coverage, { row, column }: GridPlace): string {
  const line = classes[row];
  if (line === undefined) return "";
  const state = MEANING.find(({ letter }) => letter === line.marks[column])?.text ?? "";
  const name = `${deviceName(line.device)} (${classDetail(line.device.device_class)})`;
  return `${state}: ${workloads[column]} on ${name}`;
}

function drawCells({ classes, workloads }: Coverage, side: number): SVGSVGElement {
  const [width, height] = [workloads.length * side, classes.length * side];
  const drawing = svg("svg", { class: "cells", width, height, "aria-hidden": "true" });
  const inner = side - GAP;
  for (const { letter, look, draw } of MEANING) {
    const marks = classes.flatMap(({ marks }, row) =>
      [...marks].flatMap((mark, column) =>
        mark === letter ? [`M${(column * side) / inner} ${(row * side) / inner}${draw}`] : [],
      ),
    );
    const path = svg("path", { class: look, d: marks.join("") });
    path.setAttribute("transform", `translate(${GAP / 2} ${GAP / 2}) scale(${inner})`);
    drawing.append(path);
  }
  return drawing;
}

function drawColumns(workloads: readonly string[], side: number): SVGSVGElement {
  const height = 8 + Math.min(24, Math.max(...workloads.map(({ length }) => length))) * CHARACTER;
  const width = workloads.length * side;
  const drawing = svg("svg", { class: "columns", width, height, "aria-hidden": "true" });
  workloads.forEach((workload, column) => {
    const text = svgText(0, 0, "label", cut(workload, 24));
    text.setAttribute(
      "transform",
      `translate(${(column + 0.5) * side + 3} ${height - 4}) rotate(-90)`,
    );
    drawing.append(text);
  });
  return drawing;
}

function drawRows({ classes }: Coverage, side: number): SVGSVGElement {
  const most = matchMedia("(max-width: 44rem)").matches ? 16 : 36;
  const names = classes.map(({ device }) =>
    cut(`${deviceName(device)} ${classDetail(device.device_class)}`, most),
  );
  const width = 10 + Math.max(...names.map(({ length }) => length)) * CHARACTER;
  const height = classes.length * side;
  const drawing = svg("svg", { class: "rows", width, height, "aria-hidden": "true" });
  names.forEach((name, row) => {
    drawing.append(svgText(0, (row + 0.5) * side + 4, "label", name));
  });
  return drawing;
}

const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most - 1)}…`;

function key(): HTMLElement {
  const list = element("ul", "legend");
  for (const { text, look, draw } of MEANING) {
    const picture = svg("svg", { viewBox: "-.1 -.1 1.2 1.2", "aria-hidden": "true" });
    picture.append(svg("path", { class: look, d: `M0 0${draw}` }));
    list.append(element("li", "", picture, ` ${text}`));
  }
  return list;
}
