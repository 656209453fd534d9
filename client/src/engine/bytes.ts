/** Bytes from hexadecimal and base64 text. */

/** Hexadecimal text to bytes. */
export function fromHex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** Base64 text to bytes; `atob` is in every browser, in workers and in Node. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
