import { sha256Hex } from "../engine/sha256.js";
import type { TargetKind } from "../wire/types.js";
import type { Hardware } from "./hardware.js";

/** 16 hex digits: SHA-256 over the sorted fields, as in `kernelzoo/domain/device.py`. */
export function deviceId(hardware: Hardware): string {
  const { cpu_architecture, gpu_architecture, gpu_vendor, logical_cores } = hardware;
  const text = JSON.stringify({ cpu_architecture, gpu_architecture, gpu_vendor, logical_cores });
  return sha256Hex(new TextEncoder().encode(text)).slice(0, 16);
}

/** `<device id>:<ρ>:<target>`: devices of one class share kernels. */
export function deviceClass(
  id: string,
  rho: string,
  features: readonly string[],
  target: TargetKind = "wasm",
): string {
  return `${id}:${rho}:${[target, ...[...features].sort()].join("+")}`;
}
