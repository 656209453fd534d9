/**
 * An address says where a zoo is: a gateway, or the `bundle.json` of a static host, which says
 * where the manifest of each class of devices is.
 */
import { KernelZooError } from "../engine/error.js";

/** Returns whether the address is that of a bundle's index and not of a gateway. */
export const isBundle = (address: URL): boolean => address.pathname.endsWith(".json");

/**
 * The address that others are relative to: of a bundle's index, or of a gateway, which may be
 * behind a path. A page may give it relative to itself. Throws KernelZooError (network).
 */
export function zooAddress(url: string | URL): URL {
  try {
    const address = new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href);
    // Nothing lies below an address such as `data:,x`.
    new URL("./v1", address);
    if (!isBundle(address) && !address.pathname.endsWith("/")) address.pathname += "/";
    return address;
  } catch (cause) {
    throw new KernelZooError("network", `${url} is no URL; write https://zoo.example`, cause);
  }
}

/** Written by `kernelzoo zoo bundle`. It is not signed; the manifests that it names are. */
export interface Bundle {
  readonly bundle: 1;
  readonly set: string;
  readonly manifests: readonly BundledManifest[];
  /** Absent in a bundle without models. */
  readonly models?: readonly BundledModel[];
  /**
   * Weights of more bytes lie in files of so many at the most, each of as many chunks as always fit:
   * `.0`, `.1` and so on follow their address. Absent where all are one file.
   */
  readonly file_bytes?: number;
}

/** A manifest for one class, or for the wasm and the webgpu class of one device. */
export interface BundledManifest {
  readonly device_classes: readonly string[];
  readonly url: string;
}

/** A model of certain dimensions and a precision, with the kernels of one class. */
export interface BundledModel extends BundledManifest {
  readonly name: string;
  readonly dimensions: Readonly<Record<string, number>>;
  /** Absent in a bundle of an older zoo. */
  readonly precision?: string;
}

/** Stands in place of a device id: the manifest is for all devices that have the features. */
const ANY = "0".repeat(16);

/**
 * Returns whether what is for `offered` runs on `own`: the same class, or any with features of it.
 */
function runsOn(offered: string, own: string): boolean {
  const [id, , target = ""] = offered.split(":");
  const features = own.split(":")[2]?.split("+");
  const within = target.split("+").every((name) => features?.includes(name));
  return offered === own || (id === ANY && within);
}

/** Chooses what is for these very classes, else for any device; the first of equals. */
export function chooseOffer<Offer extends Pick<BundledManifest, "device_classes">>(
  offers: readonly Offer[],
  own: readonly string[],
): Offer | undefined {
  const worth = ({ device_classes }: Offer): number =>
    3 * device_classes.filter((deviceClass) => own.includes(deviceClass)).length +
    device_classes.length;
  return offers
    .filter(({ device_classes }) => device_classes.every((c) => own.some((o) => runsOn(c, o))))
    .sort((a, b) => worth(b) - worth(a))[0];
}

/** Throws KernelZooError (manifest) for what is no bundle, or has nothing for these classes. */
export function addressIn(bundle: Bundle, origin: URL, own: readonly string[]): URL {
  const chosen = bundle.bundle === 1 ? chooseOffer(bundle.manifests, own) : undefined;
  if (chosen !== undefined) return new URL(`.${chosen.url}`, origin);
  throw new KernelZooError("manifest", `${origin} is no bundle of kernels for ${own.join()}.`);
}
