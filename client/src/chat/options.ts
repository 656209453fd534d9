/** Options that nobody knows, refused by name. */
import { unknownName } from "../engine/spelling.js";

/** Throws TypeError, which names the nearest of the names that are known. */
export function refuseUnknown(where: string, given: object, known: readonly string[]): void {
  const told = unknownName(where, given, known);
  if (told !== null) throw new TypeError(told);
}
