"""Tells which releases of the peers the page was built with."""

import json

from bench.site import MODULES

PACKAGES = {
    "litert_js": "@litertjs/core",
    "onnxruntime_web": "onnxruntime-web",
    "tfjs_wasm": "@tensorflow/tfjs-backend-wasm",
}


def peer_versions() -> dict[str, str]:
    return {
        name: str(json.loads((MODULES / package / "package.json").read_text())["version"])
        for name, package in PACKAGES.items()
    }
