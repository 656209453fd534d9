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
from bench.gpu.answer import parsed
from bench.gpu.browser import answered
from bench.gpu.cases import GPU_CASES, QUANTISED_CASES, QUICK, TINY, TINY_QUANTISED
from bench.gpu.job import BRIEFLY, ON_CPU, ON_GPU, GpuSpace
from bench.gpu.report import gpu_report
from bench.options import parser, run
from bench.report import CannotMeasure, Report, machine
from kernelzoo.domain.gpu import GPU_MODELS


def main() -> None:
    options = parser("WebGPU kernels against their peers, in one page.")
    every = (*GPU_CASES, *QUANTISED_CASES, TINY, TINY_QUANTISED)
    options.add_argument("--only", nargs="+", choices=[case.name for case in every])
    options.add_argument(
        "--quantised", action="store_true", help="products of language models with 4-bit weights"
    )
    options.add_argument("--model", choices=list(GPU_MODELS), help="whose space is exported")
    way = options.add_mutually_exclusive_group()
    way.add_argument("--export", type=Path, metavar="FOLDER", help="write the page there, only")
    way.add_argument("--import", type=Path, metavar="FILE", dest="answer", help="what it answered")
    options.add_argument("--gpu", default="", help="with --import: its name, as browsers hide it")
    run(options, measure, tiny=("--only", TINY.name, TINY_QUANTISED.name))


def measure(options: Namespace) -> Report | None:
    if options.answer is not None:
        return _imported(options.answer, options.gpu)
    if options.export is not None:
        asked = [case.name for case in QUANTISED_CASES] if options.quantised else options.only
        spaces = _spaces(asked, options.model or "any")
        gpu_site.write(options.export, gpu_site.files(spaces, ON_GPU))
        return None
    spaces = _spaces(options.only or list(QUICK), options.model or "swiftshader")
    effort = BRIEFLY if options.tiny else ON_CPU
    return gpu_report(parsed(answered(gpu_site.files(spaces, effort), gpu_site.SCRIPT)), machine())


def _spaces(only: list[str] | None, model: str) -> list[GpuSpace]:
    chosen = [case for case in GPU_CASES if only is None or case.name in only]
    others = (*QUANTISED_CASES, TINY, TINY_QUANTISED)
    chosen += [case for case in others if only and case.name in only]
    return [GpuSpace.of(case, GPU_MODELS[model]) for case in chosen]


def _imported(path: Path, gpu: str) -> Report:
    if not path.is_file():
        raise CannotMeasure(f"{path} does not exist; save there what the page answered")
    return gpu_report(parsed(path.read_bytes()), {"gpu": gpu})


if __name__ == "__main__":
    main()
