import { padded, stagingBuffer } from "./buffers.js";
import type { OpenDevice } from "./device.js";

/** The first `bytes` of `source`, once all that was submitted before has run. */
export async function readBuffer(
  open: OpenDevice,
  source: GPUBuffer,
  bytes: number,
  limitMs: number,
): Promise<ArrayBuffer> {
  const { device } = open;
  const staging = stagingBuffer(device, bytes);
  try {
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(source, 0, staging, 0, padded(bytes));
    device.queue.submit([encoder.finish()]);
    await open.settled(staging.mapAsync(GPUMapMode.READ), limitMs);
    return staging.getMappedRange().slice(0, bytes);
  } finally {
    staging.destroy();
  }
}
