/** Bytes, and how they are made from hexadecimal and base64 text. */

export type Bytes = Uint8Array<ArrayBuffer>;

/** Hexadecimal text to bytes. */
export function fromHex(text: string): Bytes {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** Base64 text to bytes; `atob` is in every browser, in workers and in Node. */
export function fromBase64(text: string): Bytes {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
