/** Obstacles of a browser to measuring in it. */
import { wasmFeatures } from "../engine/features.js";

/** Something about this browser that a visitor should know before lending it. */
export interface Obstacle {
  readonly id: "no-simd" | "insecure" | "not-isolated";
  /** Nothing can be measured here. */
  readonly blocks: boolean;
}

export interface Browser {
  readonly simd: boolean;
  readonly secure: boolean;
  readonly isolated: boolean;
}

export const thisBrowser = (): Browser => ({
  simd: typeof WebAssembly === "object" && wasmFeatures().includes("simd128"),
  secure: isSecureContext,
  isolated: crossOriginIsolated,
});

/** The obstacles of a browser; the page has a notice for each id. */
export function obstacles({ simd, secure, isolated }: Browser): readonly Obstacle[] {
  if (!simd) return [{ id: "no-simd", blocks: true }];
  if (!secure) return [{ id: "insecure", blocks: false }];
  return isolated ? [] : [{ id: "not-isolated", blocks: false }];
}
