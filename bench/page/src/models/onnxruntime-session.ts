/** onnxruntime-web on WebAssembly. */
import * as ort from "onnxruntime-web/wasm";
import { serveOnnxRuntime } from "./onnxruntime.js";

serveOnnxRuntime(ort, "wasm", new URL("/onnxruntime-web/", location.origin));
