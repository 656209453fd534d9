"""Our WebGPU kernels beside onnxruntime-web, TensorFlow.js and the limits of the adapter.

A page does all of it: it tunes each workload over its compiled lite space, with the agent's own
code, and holds a contest of the fastest, the peers and the limits. Here that is Chromium with
SwiftShader, which is a CPU. For a GPU, `--export FOLDER` writes the page as static files, to be
served with cross-origin isolation and opened in a browser there; `--import FILE` reports what it
answered.
"""

from argparse import Namespace
from pathlib import Path

from bench.gpu import site as gpu_site
from bench.gpu.answer import GpuAnswer
from bench.gpu.cases import CASES, GPU_CASES, QUANTISED_CASES, QUICK, TINY, TINY_QUANTISED
from bench.gpu.elsewhere import GpuPage, add_ways
from bench.gpu.job import BRIEFLY, ON_CPU, ON_GPU, GpuSpace
from bench.gpu.report import gpu_report
from bench.options import parser, run
from kernelzoo.domain.gpu import GpuModel


def main() -> None:
    options = parser("WebGPU kernels against their peers, in one page.")
    options.add_argument("--only", nargs="+", choices=list(CASES))
    options.add_argument(
        "--quantised", action="store_true", help="products of language models with 4-bit weights"
    )
    add_ways(options)
    run(options, PAGE.measure, tiny=("--only", TINY.name, TINY_QUANTISED.name))


def _write(folder: Path, options: Namespace, gpu: GpuModel, elsewhere: bool) -> None:
    asked = options.only
    if elsewhere and options.quantised:
        asked = [case.name for case in QUANTISED_CASES]
    if not elsewhere:
        asked = asked or list(QUICK)
    here = BRIEFLY if options.tiny else ON_CPU
    files = gpu_site.files(_spaces(asked, gpu), ON_GPU if elsewhere else here)
    gpu_site.write(folder, files)


def _spaces(only: list[str] | None, gpu: GpuModel) -> list[GpuSpace]:
    chosen = GPU_CASES if only is None else [each for name, each in CASES.items() if name in only]
    return [GpuSpace.of(case, gpu) for case in chosen]


PAGE = GpuPage(script=gpu_site.SCRIPT, answer=GpuAnswer, write=_write, report=gpu_report)

if __name__ == "__main__":
    main()
