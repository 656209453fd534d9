/** A canvas to draw on, and what is drawn as the network takes it. */

const LINE = 20;
/** Cells a side, and dots a side of each cell: the images were made of 32 × 32 dots. */
const CELLS = 8;
const DOTS = 4;
const SIDE = CELLS * DOTS;
/** Of 0 to 255: a dot with more ink is dark. */
const DARK = 96;

/** Calls `changed` after each stroke of a pointer, be it a finger, a pen or a mouse. */
export function drawOn(canvas, changed) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.lineWidth = LINE;
  context.lineCap = "round";
  context.lineJoin = "round";
  context.strokeStyle = getComputedStyle(canvas).color;
  const placeOf = ({ clientX, clientY }) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    return [((clientX - left) / width) * canvas.width, ((clientY - top) / height) * canvas.height];
  };
  let last = null;
  const drawTo = (place) => {
    context.beginPath();
    context.moveTo(...(last ?? place));
    context.lineTo(...place);
    context.stroke();
    last = place;
    changed();
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = null;
    drawTo(placeOf(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    if (last === null || event.buttons === 0) return;
    const moves = event.getCoalescedEvents?.() ?? [];
    for (const each of moves.length > 0 ? moves : [event]) drawTo(placeOf(each));
  });
  const lift = () => {
    last = null;
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
}

export function clear(canvas) {
  canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
}

/** Left, top, width and height of the ink; null on empty paper. */
function inked({ data, width, height }) {
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (data[4 * (y * width + x) + 3] < DARK) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
  }
  return right < 0 ? null : [left, top, right - left + 1, bottom - top + 1];
}

/**
 * The drawing as the network's images were made: as large as fits 32 × 32 dots, in the middle, and
 * of each 4 × 4 dots the share that is dark. Null on empty paper.
 */
export function imageOf(canvas) {
  const drawn = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const box = inked(drawn);
  if (box === null) return null;
  const [left, top, width, height] = box;
  const scale = SIDE / Math.max(width, height);
  const small = new OffscreenCanvas(SIDE, SIDE).getContext("2d");
  const [w, h] = [width * scale, height * scale];
  small.drawImage(canvas, left, top, width, height, (SIDE - w) / 2, (SIDE - h) / 2, w, h);
  const { data } = small.getImageData(0, 0, SIDE, SIDE);
  const image = new Float32Array(CELLS * CELLS);
  for (let y = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++) {
      const cell = Math.floor(y / DOTS) * CELLS + Math.floor(x / DOTS);
      if (data[4 * (y * SIDE + x) + 3] >= DARK) image[cell] += 1 / (DOTS * DOTS);
    }
  }
  return image;
}
