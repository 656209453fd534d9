/** Explains what the bits of a primitive vector say. */
import { element } from "../page/elements.js";
import { code } from "./pieces.js";

/** Names of the bits by suite, the first bit first; as the probes of the client have them. */
export const PRIMITIVES: Readonly<Record<string, readonly string[]>> = {
  r3: ["fma", "load_splat", "pack"],
  r102: ["cache_read", "vec4", "split_k", "native_f16", "subgroups"],
};

const MEANING: Readonly<Record<string, string>> = {
  fma: "sums of products by one instruction",
  load_splat: "a load that fills a vector with one number",
  pack: "a matrix copied into the order in which it is read",
  cache_read: "tiles copied into workgroup memory",
  vec4: "four numbers at a time",
  split_k: "a long sum split among threads",
  native_f16: "16-bit floats by their type",
  subgroups: "sums within a subgroup of threads",
};

/** `r3-011` as `load_splat and pack`; null for a suite that is not known. */
export function fasterSettings(rho: string): readonly string[] | null {
  const [suite = "", bits = ""] = rho.split("-");
  const names = PRIMITIVES[suite];
  if (names === undefined || names.length !== bits.length) return null;
  return names.filter((_, place) => bits[place] === "1");
}

/** Tells what the ρ of one class says of it. */
export function rhoFacts(deviceClass: string): HTMLElement {
  const [, rho = ""] = deviceClass.split(":");
  const faster = fasterSettings(rho);
  const line = element("p", "quiet", "ρ is ", code(rho), `: ${told(faster)}`);
  return element("div", "", line, aboutRho());
}

function told(faster: readonly string[] | null): string {
  if (faster === null) return "bits of a suite that this console does not know.";
  if (faster.length === 0) return "no advanced setting is faster on this device.";
  return `faster on this device: ${faster.map((name) => `${name} (${MEANING[name]})`).join(", ")}.`;
}

/** Explains what a reader needs to know of the `r3-011` beside a class. */
export function aboutRho(): HTMLElement {
  const node = element(
    "details",
    "about",
    element("summary", "", "What is ρ?"),
    element(
      "p",
      "",
      "ρ, as in ",
      code("r3-011"),
      ", is the primitive vector of a device: r, the number of a suite of small races that its " +
        "browser ran, and a bit for each race. A bit is 1 where the advanced setting of a " +
        "primitive, such as packing a matrix, is faster than the plain one on this device by a " +
        "margin. Devices of the same hardware with another ρ, for instance in another browser, " +
        "are another class: other kernels win on them.",
    ),
  );
  node.id = "about-rho";
  return node;
}
