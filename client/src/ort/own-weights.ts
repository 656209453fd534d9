/**
 * Puts the weights of a plan together from the file that the page has, by the map that the zoo made as
 * it imported the model (services/tuner/graph/original_map.py says what a map is).
 */
import type { Beside } from "./source-hashes.js";

/** A matrix whose rows lie one after the other in a file: its number, the first byte, bytes of a row. */
type Matrix = readonly [file: number, start: number, rowBytes: number];

interface MapHead {
  /** The names of the files; that of the model's own is empty. */
  readonly locations: readonly string[];
  readonly parts: readonly Part[];
}

type Part = readonly [
  offset: number,
  bytes: number,
  columns: readonly Matrix[],
  form: "same" | "transposed",
  entryBytes: number,
];

const NEWLINE = 10;

/** Throws RangeError for a file that is too short. */
function bytesOf(file: Uint8Array | undefined, start: number, bytes: number): Uint8Array {
  const piece = file?.subarray(start, start + bytes);
  if (piece?.length !== bytes) throw new RangeError("The file is shorter than its map.");
  return piece;
}

/** The rows of matrices that lie side by side. */
function joined(
  files: readonly Uint8Array[],
  bytes: number,
  columns: readonly Matrix[],
): Uint8Array {
  const [only] = columns;
  if (only?.[2] === bytes) return bytesOf(files[only[0]], only[1], bytes);
  const whole = new Uint8Array(bytes);
  const width = columns.reduce((sum, [, , rowBytes]) => sum + rowBytes, 0);
  let first = 0;
  for (const [file, start, rowBytes] of columns) {
    for (let at = first, from = start; at < bytes; at += width, from += rowBytes) {
      whole.set(bytesOf(files[file], from, rowBytes), at);
    }
    first += rowBytes;
  }
  return whole;
}

/** `matrix` has rows of `columns` entries; the answer has them as its columns. */
function transposed(matrix: Uint8Array, columns: number, entryBytes: number): Uint8Array {
  const rows = matrix.length / (columns * entryBytes);
  const Entries = entryBytes === 4 ? Uint32Array : entryBytes === 2 ? Uint16Array : Uint8Array;
  const [from, to] = [new Entries(matrix.slice().buffer), new Entries(rows * columns)];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      to[column * rows + row] = from[row * columns + column] as number;
    }
  }
  return new Uint8Array(to.buffer);
}

function weightOf(
  files: readonly Uint8Array[],
  [, bytes, columns, form, entryBytes]: Part,
): Uint8Array {
  const matrix = joined(files, bytes, columns);
  if (form === "same") return matrix;
  const width = columns.reduce((sum, [, , rowBytes]) => sum + rowBytes, 0);
  return transposed(matrix, width / entryBytes, entryBytes);
}

/**
 * Returns a file of `size` bytes of weights. Nobody has compared them yet: whoever reads them holds
 * them to the plan's hashes. Throws for a map that does not fit the files.
 */
export async function weightsByMap(
  map: Uint8Array,
  size: number,
  model: Uint8Array,
  beside: Beside,
): Promise<Blob> {
  const end = map.indexOf(NEWLINE);
  const { locations, parts }: MapHead = JSON.parse(new TextDecoder().decode(map.subarray(0, end)));
  const files = await Promise.all(
    locations.map((location) => (location === "" ? model : beside(location))),
  );
  const pieces: Uint8Array[] = [];
  let [at, own] = [0, end + 1];
  const takeOwn = (until: number): void => {
    pieces.push(bytesOf(map, own, until - at));
    own += until - at;
  };
  for (const part of parts) {
    const [offset, bytes] = part;
    takeOwn(offset);
    pieces.push(weightOf(files, part));
    at = offset + bytes;
  }
  takeOwn(size);
  return new Blob(pieces as BlobPart[]);
}
