/** Options that nobody knows, refused by name. */
import { unknownName } from "../engine/spelling.js";

/** Throws TypeError, which names the nearest of the names that are known. */
export function refuseUnknown(where: string, given: object, known: readonly string[]): void {
  const refusal = unknownName(where, given, known);
  if (refusal !== null) throw new TypeError(refusal);
}
