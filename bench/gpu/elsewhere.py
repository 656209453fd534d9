"""A benchmark whose page runs here, on an adapter that is a CPU, or on a machine with a GPU.

`--export FOLDER` writes the page there, to be served with cross-origin isolation and opened on that
machine; `--import FILE` reports what it answered.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from bench.gpu.browser import answered
from bench.report import CannotMeasure, Cell, Report, machine
from kernelzoo.domain.gpu import ANY_GPU, GPU_MODELS, GpuModel, gpu_model

A = TypeVar("A", bound=Struct)


def add_ways(made: ArgumentParser) -> None:
    made.add_argument("--model", choices=list(GPU_MODELS), help="whose space is exported")
    way = made.add_mutually_exclusive_group()
    way.add_argument("--export", type=Path, metavar="FOLDER", help="write the page there, only")
    way.add_argument("--import", type=Path, metavar="FILE", dest="answer", help="what it answered")
    made.add_argument("--gpu", default="", help="with --import: its name, as browsers hide it")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPage(Generic[A]):
    """`write` puts the page into a folder, with kernels for a model of GPU; True says that it is to
    run elsewhere. `fill` makes what is not sent about. `script` is a promise of the answer."""

    script: str
    answer: type[A]
    write: Callable[[Path, Namespace, GpuModel, bool], None]
    report: Callable[[A, Mapping[str, Cell]], Report]
    fill: Callable[[Path], None] | None = None

    def measure(self, options: Namespace) -> Report | None:
        """None where the page was exported. Raises CannotMeasure."""
        if options.answer is not None:
            return self.report(answer_in(options.answer, self.answer), {"gpu": options.gpu})
        asked = GPU_MODELS.get(options.model)
        if options.export is not None:
            self.write(options.export, options, asked or ANY_GPU, True)
            return None
        with TemporaryDirectory() as made:
            folder = Path(made)
            self.write(folder, options, asked or gpu_model("google", "swiftshader"), False)
            if self.fill is not None:
                self.fill(folder)
            files = {str(each.relative_to(folder)): each for each in folder.rglob("*.*")}
            found = parsed(answered(files, self.script), self.answer)
            return self.report(found, machine())


def answer_in(path: Path, kind: type[A]) -> A:
    """Raises CannotMeasure where there is no such answer."""
    if not path.is_file():
        raise CannotMeasure(f"{path} does not exist; save there what the page answered")
    return parsed(path.read_bytes(), kind)


def parsed(text: bytes, kind: type[A]) -> A:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise CannotMeasure(f"this is no answer of the WebGPU page: {error}") from error
