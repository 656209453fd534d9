"""Coverage-guided fuzzing of everything that reads text of strangers, with Atheris.

Each parser either returns a value that is written back as it was read, or raises a KernelZooError;
libFuzzer ends a run that takes longer than `-timeout` or more memory than `-rss_limit_mb`.
`make audit` runs it for twenty seconds; `.venv/bin/python -m tests.fuzz.parsers -help=1` lists what
else it takes.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris
from onnx import parser

with atheris.instrument_imports(include=["kernelzoo", "services"]):
    from kernelzoo.domain.candidate import Candidate, Setting
    from kernelzoo.domain.device import DeviceClass, PrimitiveVector
    from kernelzoo.domain.operators import EPILOGUES, OPERATORS
    from kernelzoo.domain.target import Target, TargetKind
    from kernelzoo.domain.workload import Workload
    from kernelzoo.errors import KernelZooError
    from kernelzoo.formats.bundle import read_lock_head
    from kernelzoo.formats.kernel_tuner import read_cache, read_t4
    from kernelzoo.formats.plans import plan_bytes, read_plan
    from services.gateway.tokens import ApplicationKey
    from services.tuner.compile import compile_candidate
    from services.tuner.graph.importing import import_model
    from services.tuner.language.config_file import read_config
    from services.tuner.language.tensor_files import stored_tensors
    from services.tuner.schedules.registry import lite_space

from tests.language_folder import CONFIG, safetensors
from tests.tiny_model import tiny_model

EXAMPLES = (
    "matmul+bias+gelu:f32:m13k9n17",
    "matmul:f32:m8k8n8:constant=b",
    "batch_matmul:f32:b2m5k4n6",
    "conv2d:f32:b1h9w9c3o4kh3kw3stride1pad1",
    "softmax:f32:m5n12",
    "transpose:f32:m6n9",
)
"""Small, so that compiling a config takes milliseconds."""

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 4, 6, 6] x, float[3, 4, 3, 3] w, int64[2] i) => (float[2, 3] y) {
        c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
        n = ReduceMean <axes = [2, 3], keepdims = 0> (c)
        s = Softmax <axis = -1> (n)
        y = Gather <axis = 0> (s, i)
    }"""
).SerializeToString()

PLAN = plan_bytes(tiny_model().plan)
TENSORS = safetensors({"w": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}, bytes(12))
LANGUAGE_MODEL = json.dumps(CONFIG).encode()

SPACES = {
    (target, key): lite_space(Workload.parse(key), target)
    for target in TargetKind
    for key in EXAMPLES
}
UNUSUAL: tuple[Setting, ...] = (-1, 0, 1, 3, 1 << 31, 1 << 62, True, False, "", "none", "\x00")


def read_key(text: str) -> None:
    assert Workload.parse(text).key == text


def read_device_class(text: str) -> None:
    assert str(DeviceClass.parse(text)) == text


def read_target(text: str) -> None:
    assert Target.parse(str(Target.parse(text))) == Target.parse(text)


def read_rho(text: str) -> None:
    assert str(PrimitiveVector.parse(text)) == text


def read_application_key(text: str) -> None:
    key = ApplicationKey.parse(text)
    assert key is None or ApplicationKey.parse(key.secret.key(key.number)) == key


TEXT_PARSERS: tuple[Callable[[str], object], ...] = (
    read_key,
    read_device_class,
    read_target,
    read_rho,
    read_application_key,
    read_lock_head,
    read_t4,
    read_cache,
)


def compile_mutant(data: atheris.FuzzedDataProvider) -> None:
    """A candidate of a lite space, some of whose settings are changed, renamed or left out."""
    target, key = data.PickValueInList(list(SPACES))
    candidate = data.PickValueInList(list(SPACES[target, key]))
    settings = dict(candidate.config)
    for _ in range(data.ConsumeIntInRange(1, 3)):
        name = data.PickValueInList([*settings, "unknown"])
        match data.ConsumeIntInRange(0, 3):
            case 0:
                settings.pop(name, None)
            case 1:
                settings[name] = data.ConsumeIntInRange(-2, 600)
            case 2:
                settings[name] = data.PickValueInList(list(UNUSUAL))
            case _:
                settings[name] = data.ConsumeUnicodeNoSurrogates(12)
    mutant = Candidate(
        workload=candidate.workload,
        target=target,
        config=tuple(sorted(settings.items())),
        requires=candidate.requires,
    )
    compile_candidate(mutant)


def import_mutant(data: atheris.FuzzedDataProvider) -> None:
    with _file("model.onnx", mutated(data, MODEL)) as path:
        import_model(path, {})


def plan_mutant(data: atheris.FuzzedDataProvider) -> None:
    read_plan(mutated(data, PLAN))


def tensors_mutant(data: atheris.FuzzedDataProvider) -> None:
    with _file("model.safetensors", mutated(data, TENSORS)) as path:
        for tensor in stored_tensors(path).values():
            tensor.read()


def config_mutant(data: atheris.FuzzedDataProvider) -> None:
    with _file("config.json", mutated(data, LANGUAGE_MODEL)) as path:
        read_config(path.parent)


def mutated(data: atheris.FuzzedDataProvider, content: bytes) -> bytes:
    """Changes a few bytes."""
    changed = bytearray(content)
    for _ in range(data.ConsumeIntInRange(1, 4)):
        changed[data.ConsumeIntInRange(0, len(changed) - 1)] = data.ConsumeIntInRange(0, 255)
    return bytes(changed)


@contextmanager
def _file(name: str, content: bytes) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        yield path


STRUCTURES = (compile_mutant, import_mutant, plan_mutant, tensors_mutant, config_mutant)


def fuzz_one(body: bytes) -> None:
    data = atheris.FuzzedDataProvider(body)
    choice = data.ConsumeIntInRange(0, len(TEXT_PARSERS) + len(STRUCTURES) - 1)
    try:
        if choice < len(TEXT_PARSERS):
            TEXT_PARSERS[choice](data.ConsumeUnicodeNoSurrogates(4096))
        else:
            STRUCTURES[choice - len(TEXT_PARSERS)](data)
    except KernelZooError:
        return


def seeds() -> Iterator[bytes]:
    """Yields what a FuzzedDataProvider reads as each parser's own text: the choice is its last
    byte."""
    texts = (*EXAMPLES, *map(str, TargetKind), f"{'0' * 16}:r1-101:wasm+simd128", "r1-101", "[]")
    for choice in range(len(TEXT_PARSERS)):
        for text in texts:
            yield b"\x01" + text.encode() + bytes([choice])


def main() -> None:
    words = (*OPERATORS, *EPILOGUES, *EXAMPLES, *map(str, TargetKind), ":f32:", ":constant=b")
    with TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        for number, seed in enumerate(seeds()):
            Path(corpus, str(number)).write_bytes(seed)
        dictionary = Path(folder, "words")
        dictionary.write_text("".join(f"{json.dumps(word)}\n" for word in words))
        atheris.Setup([*sys.argv, f"-dict={dictionary}", str(corpus)], fuzz_one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
