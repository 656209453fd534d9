/** onnxruntime-web on WebGPU, in its build that is the smaller and faster one. */
import * as ort from "onnxruntime-web/jspi";
import { serveOnnxRuntime } from "./onnxruntime.js";

serveOnnxRuntime(ort, "webgpu", new URL("onnxruntime-web/", location.href));
