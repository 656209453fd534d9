/** Reads the fields of a protocol buffer, without what they mean. */

export interface Field {
  readonly number: number;
  /** 2 for bytes, texts and messages. */
  readonly wire: number;
  readonly tag: Uint8Array;
  /** The field with its tag, as it stands in the file. */
  readonly whole: Uint8Array;
  /** The bytes behind tag and length. */
  readonly payload: Uint8Array;
}

export const BYTES = 2;
const VARINT = 0;
const FIXED_BYTES: Readonly<Record<number, number>> = { 1: 8, 5: 4 };
const LONGEST_VARINT = 10;

const torn = (): Error => new Error("The file is no ONNX model, or it was cut off.");

/** A number, and where the next byte is; beyond 2^53 it is about right. */
function varint(body: Uint8Array, at: number): readonly [value: number, end: number] {
  let [value, factor] = [0, 1];
  for (let i = at; i < Math.min(at + LONGEST_VARINT, body.length); i++) {
    const byte = body[i] as number;
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return [value, i + 1];
    factor *= 128;
  }
  throw torn();
}

/** Throws where a field does not end within the message. */
export function* fieldsOf(body: Uint8Array): Generator<Field> {
  for (let at = 0; at < body.length; ) {
    const [key, behind] = varint(body, at);
    const [number, wire] = [Math.floor(key / 8), key % 8];
    let [start, end] = [behind, behind + (FIXED_BYTES[wire] ?? body.length)];
    if (wire === VARINT) [, end] = varint(body, behind);
    if (wire === BYTES) {
      const [length, first] = varint(body, behind);
      [start, end] = [first, first + length];
    }
    if (number === 0 || end > body.length) throw torn();
    yield {
      number,
      wire,
      tag: body.subarray(at, behind),
      whole: body.subarray(at, end),
      payload: body.subarray(start, end),
    };
    at = end;
  }
}

export const numberOf = ({ payload }: Field): number => varint(payload, 0)[0];

export const textOf = ({ payload }: Field): string => new TextDecoder().decode(payload.slice());
