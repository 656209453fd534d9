/** A canvas to draw on by finger, pen, mouse or keys, and what is drawn as the network takes it. */

/** Cells a side, and dots a side of each cell: the network's images were made of 32 × 32 dots. */
const CELLS = 8;
const DOTS = 4;
const SIDE = CELLS * DOTS;
/** Width of a line, in dots of an image and as a share of the paper. */
const LINE = 4;
const PEN = 0.07;
/** How far an arrow key moves the pen, as a share of the paper. */
const STEP = 0.05;
/** A drawing is taken to be at least so large, as a share of the paper: a dot is no digit. */
const SMALLEST = 0.15;

const MOVES = {
  ArrowLeft: [-STEP, 0],
  ArrowRight: [STEP, 0],
  ArrowUp: [0, -STEP],
  ArrowDown: [0, STEP],
};

const within = (place) => Math.min(1, Math.max(0, place));

/** One line through places that `at` puts on the canvas; a single place is a dot. */
function strokeOn(context, stroke, at) {
  context.beginPath();
  context.moveTo(...at(stroke[0]));
  for (const place of stroke) context.lineTo(...at(place));
  context.stroke();
}

function setPen(context, width, colour) {
  context.lineWidth = width;
  context.lineCap = "round";
  context.lineJoin = "round";
  context.strokeStyle = colour;
}

/**
 * The drawing as the network's images were made: as large as fits 32 × 32 dots, in the middle, and
 * of each 4 × 4 dots the share that has ink. Its lines are drawn anew, so that a small digit has
 * lines as thin as a large one. Null for no strokes.
 */
export function imageOf(strokes) {
  if (strokes.length === 0) return null;
  const [xs, ys] = [0, 1].map((axis) => strokes.flat().map((place) => place[axis]));
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
  const scale = (SIDE - LINE) / Math.max(right - left, bottom - top, SMALLEST);
  const at = ([x, y]) => [
    (x - (left + right) / 2) * scale + SIDE / 2,
    (y - (top + bottom) / 2) * scale + SIDE / 2,
  ];
  const small = document.createElement("canvas");
  small.width = small.height = SIDE;
  const context = small.getContext("2d", { willReadFrequently: true });
  setPen(context, LINE, "black");
  for (const stroke of strokes) strokeOn(context, stroke, at);
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  const image = new Float32Array(CELLS * CELLS);
  for (let y = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++) {
      const cell = Math.floor(y / DOTS) * CELLS + Math.floor(x / DOTS);
      image[cell] += data[4 * (y * SIDE + x) + 3] / 255 / (DOTS * DOTS);
    }
  }
  return image;
}

/** Paper in `element`, on its canvas; calls `changed` when something is drawn or wiped away. */
export function paperIn(element, changed) {
  const canvas = element.querySelector("canvas");
  const context = canvas.getContext("2d");
  /** Lists of places, each from 0 to 1 across and down. */
  let strokes = [];
  let pointer = null;
  /** Of the keys: its place, whether it is on the paper, and whether it is shown. */
  const pen = { place: [0.5, 0.2], down: false, shown: false };

  const draw = () => {
    const { width } = canvas;
    const { color, outlineColor } = getComputedStyle(element);
    context.clearRect(0, 0, width, width);
    setPen(context, PEN * width, color);
    for (const stroke of strokes) strokeOn(context, stroke, ([x, y]) => [x * width, y * width]);
    if (!pen.shown) return;
    const [x, y] = pen.place;
    context.beginPath();
    context.arc(x * width, y * width, (PEN * width) / 2, 0, 2 * Math.PI);
    context.lineWidth = 4;
    context.strokeStyle = outlineColor;
    context.stroke();
  };
  const add = (place, begins) => {
    if (begins) strokes.push([place]);
    else strokes.at(-1).push(place);
  };
  const show = () => {
    draw();
    changed();
  };

  const placeOf = ({ clientX, clientY }) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    return [within((clientX - left) / width), within((clientY - top) / height)];
  };
  element.addEventListener("pointerdown", (event) => {
    if (pointer !== null || event.button !== 0) return;
    pointer = event.pointerId;
    element.setPointerCapture(pointer);
    Object.assign(pen, { down: false, shown: false });
    add(placeOf(event), true);
    show();
  });
  element.addEventListener("pointermove", (event) => {
    if (event.pointerId !== pointer) return;
    const moves = event.getCoalescedEvents?.() ?? [];
    for (const each of moves.length > 0 ? moves : [event]) add(placeOf(each), false);
    show();
  });
  const lift = ({ pointerId }) => {
    if (pointerId === pointer) pointer = null;
  };
  element.addEventListener("pointerup", lift);
  element.addEventListener("pointercancel", lift);

  const clear = () => {
    strokes = [];
    pen.down = false;
    show();
  };
  element.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (move === undefined && ![" ", "Escape"].includes(event.key)) return;
    event.preventDefault();
    if (event.key === "Escape") return clear();
    pen.shown = true;
    if (move === undefined) {
      pen.down = !pen.down;
      if (pen.down) add(pen.place, true);
    } else {
      pen.place = pen.place.map((place, axis) => within(place + move[axis]));
      if (pen.down) add(pen.place, false);
    }
    show();
  });
  element.addEventListener("blur", () => {
    Object.assign(pen, { down: false, shown: false });
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return { clear, image: () => imageOf(strokes) };
}
