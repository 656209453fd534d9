/** The browser's side of the WebGPU benchmark: for a program to call, or for a person to press. */
import type { GpuAnswer } from "./webgpu/request.js";
import { run } from "./webgpu/run.js";

function save(answer: GpuAnswer): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(answer)]));
  link.download = "kernels_webgpu.answer.json";
  link.click();
}

function say(line: string): void {
  console.log(line);
  document.querySelector("pre")?.append(`${line}\n`);
}

const start = (): Promise<GpuAnswer> => run(say);

document.querySelector("button")?.addEventListener(
  "click",
  async () => {
    save(await start());
    say("Saved.");
  },
  { once: true },
);

Object.assign(globalThis, { kernelzooGpuBench: { run: start } });
