/** A zoo that serves tiny kernels to the SDK. */

import type { TestContext } from "node:test";
import { KernelZoo } from "../src/sdk/index.js";
import type { KernelWire, Manifest } from "../src/wire/types.js";
import { bytesOf, type Tiny, tinyKernel } from "./kernels.js";

export const ELEMENTS = 8;
export const KEY = `add:f32:n${ELEMENTS}`;
export const CLASS = "0123456789abcdef:r1-0:wasm+simd128";
const TINY: readonly Tiny[] = ["add", "subtract", "trap", "negate"];

const NO_GROUNDS = { classes: 1, relative_time: null, neighbour: null } as const;

export function manifestOf(kernel: KernelWire, missing: string[] = []): Manifest {
  return {
    manifest: 1,
    set: KEY,
    device_classes: [CLASS],
    entries: [
      {
        workload: KEY,
        flops: ELEMENTS,
        wasm: {
          tolerance: 1e-6,
          level: "exact",
          kernel,
          fallback: tinyKernel("add", ELEMENTS),
          state: "confirmed",
          version: 3,
          evidence: {
            ...{ ballots: 5, weight: 20, total_weight: 25, relative_time: 0.6 },
            engines: [{ name: "Chromium", major: 156, ballots: 5 }],
          },
          timing: null,
          grounds: { ...NO_GROUNDS, identities: 5, rho_distance: 0 },
        },
        webgpu: null,
        advice: { target: "wasm", basis: "none" },
      },
    ],
    missing,
    issued_at: new Date().toISOString(),
    serial: 1,
    signatures: [],
  };
}

/** Serves kernels by content and `manifest` for everything else; answers what was asked for. */
export function serve(t: TestContext, manifest: Response | Manifest): string[] {
  const asked: string[] = [];
  const bodies = new Map(TINY.map((name) => [tinyKernel(name, 1).url, bytesOf(name)]));
  t.mock.method(globalThis, "fetch", async (url: URL) => {
    asked.push(url.pathname);
    const body = bodies.get(url.pathname);
    if (body !== undefined) return new Response(body);
    return manifest instanceof Response ? manifest : Response.json(manifest);
  });
  return asked;
}

export const filled = (value: number): number[] => new Array(ELEMENTS).fill(value);

export const open = (): Promise<KernelZoo> =>
  KernelZoo.open("http://zoo.test", { deviceClass: CLASS });
