/** Where a zoo is. */
import { KernelZooError } from "../engine/error.js";

/** Whether the address is that of a bundle's index and not of a gateway. */
export const isBundle = (address: URL): boolean => address.pathname.endsWith(".json");

/**
 * The address that others are relative to: of a bundle's index, or of a gateway, which may be behind
 * a path. A page may give it relative to itself. Throws KernelZooError (network).
 */
export function zooAddress(url: string | URL): URL {
  try {
    const address = new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href);
    if (!isBundle(address) && !address.pathname.endsWith("/")) address.pathname += "/";
    return address;
  } catch (cause) {
    throw new KernelZooError("network", `${url} is no URL; write https://zoo.example`, cause);
  }
}
