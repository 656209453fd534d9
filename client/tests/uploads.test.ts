import assert from "node:assert/strict";
import { test } from "node:test";
import { Uploads } from "../src/backend/webgpu/uploads.js";

Object.assign(globalThis, {
  GPUBufferUsage: { MAP_WRITE: 2, COPY_SRC: 4 },
  GPUMapMode: { WRITE: 2 },
});

interface Backed {
  readonly bytes: Uint8Array;
}

/** A device whose buffers are bytes, what it was asked for, and what maps those that wait for it. */
function device() {
  const asked: string[] = [];
  const waiting: (() => void)[] = [];
  const createBuffer = ({ size }: { size: number }) => {
    const bytes = new Uint8Array(size);
    const mapAsync = (): Promise<void> => new Promise((resolve) => waiting.push(resolve));
    return { bytes, getMappedRange: () => bytes.buffer, mapAsync, unmap: () => undefined };
  };
  const copyBufferToBuffer = (from: Backed, at: number, to: Backed, into: number, n: number) => {
    asked.push("copy");
    to.bytes.set(from.bytes.subarray(at, at + n), into);
  };
  const writeBuffer = (to: Backed, at: number, { buffer }: Float32Array<ArrayBuffer>) => {
    asked.push("write");
    to.bytes.set(new Uint8Array(buffer), at);
  };
  const queue = { writeBuffer, submit: () => undefined };
  const createCommandEncoder = () => ({ copyBufferToBuffer, finish: () => ({}) });
  const gpu = { createBuffer, createCommandEncoder, queue } as unknown as GPUDevice;
  return { asked, waiting, gpu, createBuffer };
}

const rest = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

test("a large input goes through a buffer that is mapped, and another way while none is", async () => {
  const { asked, waiting, gpu, createBuffer } = device();
  const [large, small] = [1 << 18, 64].map((size) => createBuffer({ size }));
  const inputs = [large, small] as unknown as readonly GPUBuffer[];
  const uploads = new Uploads(gpu, inputs, 1);
  const run = async (value: number): Promise<string> => {
    const feeds = [1 << 16, 16].map((entries) => new Float32Array(entries).fill(value));
    asked.length = 0;
    uploads.write(feeds);
    await rest();
    for (const each of [large, small] as readonly Backed[]) {
      const held = new Float32Array(each.bytes.buffer as ArrayBuffer);
      assert.ok(held.every((entry) => entry === value));
    }
    return asked.join(" ");
  };
  assert.equal(await run(1), "write write");
  assert.equal(await run(2), "copy write");
  assert.equal(await run(3), "write write", "it is not mapped again yet");
  for (const resolve of waiting.splice(0)) resolve();
  await rest();
  assert.equal(await run(4), "copy write");
});
