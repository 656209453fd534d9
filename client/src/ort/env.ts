/** Settings of a page: onnxruntime-common's, and what zoo its sessions ask. */
import { type Env as CommonEnv, env as common } from "onnxruntime-common";
import type { OpenOptions } from "../sdk/index.js";

export interface ZooSettings extends OpenOptions {
  /** The address of a gateway; without one every session runs on onnxruntime-web. */
  readonly url?: string | URL;
  /**
   * Imports the real onnxruntime-web, as by `() => import("onnxruntime-web-real")`. Without it, what
   * the zoo does not run is refused.
   */
  readonly fallback?: () => Promise<unknown>;
}

export interface Env extends CommonEnv {
  /** To be told before the first session. */
  kernelzoo?: ZooSettings;
}

export const env: Env = common;

/** Settings with which the zoo is asked. */
export type NamedZoo = ZooSettings & { readonly url: string | URL };

export const namesZoo = (settings: ZooSettings | null | undefined): settings is NamedZoo =>
  settings?.url !== undefined;
