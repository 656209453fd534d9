/** The worker of language models that are tuned on WebAssembly; what measures is that of networks. */
import model from "./decoder-worker.js?parts";

export const SOURCES = { model };
