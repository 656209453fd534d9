"""The WebGPU benchmark as a folder of static files: for a browser here, or on another machine."""

from collections.abc import Sequence
from pathlib import Path

from bench.gpu.job import Effort, GpuSpace, job
from bench.report import CannotMeasure
from bench.site import MODULES, PAGE

MOST_BYTES = 60 << 20

SCRIPT = "kernelzooGpuBench.run()"
"""This runs in the page, and is a promise of its answer."""

FILES = {
    "index.html": PAGE / "dist" / "webgpu.html",
    "webgpu.js": PAGE / "dist" / "webgpu.js",
    **{
        f"onnxruntime-web/{name}": MODULES / "onnxruntime-web" / "dist" / name
        for name in ("ort-wasm-simd-threaded.jspi.mjs", "ort-wasm-simd-threaded.jspi.wasm")
    },
}
"""The one build of onnxruntime-web that the page loads: it waits by JavaScript's promise
integration, which makes it smaller and faster than the other one that has WebGPU."""


def body_of(script: str) -> bytes:
    """An async function's, for whoever drives a browser by a program."""
    return f"return await {script};\n".encode()


def files(spaces: Sequence[GpuSpace], effort: Effort) -> dict[str, bytes]:
    """By path from the folder. Raises CannotMeasure when the page has not been built."""
    absent = [path for path in FILES.values() if not path.is_file()]
    if absent:
        raise CannotMeasure(f"{absent[0].name} is missing; run `make bench-page`")
    made = {name: path.read_bytes() for name, path in FILES.items()}
    for space in spaces:
        made |= space.artifacts
    asked = job(spaces, effort).model_dump_json(by_alias=True)
    return made | {"job.json": asked.encode(), "run.js": body_of(SCRIPT)}


def write(folder: Path, contents: dict[str, bytes]) -> None:
    """Raises CannotMeasure where the folder would be too large to send about."""
    total = sum(map(len, contents.values()))
    if total > MOST_BYTES:
        raise CannotMeasure(f"the folder would hold {total >> 20} MiB; measure fewer cases")
    for name, body in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
