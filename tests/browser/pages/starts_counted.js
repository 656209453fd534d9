/** Counts the workers that a page starts. */
globalThis.Blob = class extends Blob {
  // Workers start none themselves.
  constructor(parts, options) {
    super(["delete globalThis.Worker;", ...parts], options);
  }
};
globalThis.started = 0;
globalThis.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    globalThis.started += 1;
  }
};
