/** The errors of drivers that do not answer in time. */
import { KernelZooError } from "../../engine/error.js";

/** A kernel compiled alone and did not end in time. */
export class CompileDeadline extends KernelZooError {
  constructor(limitMs: number) {
    super("compile", `The GPU's driver did not compile this kernel within ${limitMs / 1000} s.`);
  }
}

/** The error of all other kernels on a device that was given up; it blames none of them. */
export class SharedDeadline extends KernelZooError {
  constructor(limitMs: number) {
    super("run", `The GPU's driver did not answer within ${limitMs / 1000} s.`);
  }
}
