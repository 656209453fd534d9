"""People type all this: good shapes, bad shapes, and commands without a stack."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.app import main
from cli.options import parse_targets
from cli.workload import parse_workload
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import InvalidInput

K0 = "matmul:f32:m384k768n768"


def _kernelzoo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "cli", *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(("operator", "shape"), [("matmul", "384x768x768"), (K0, None)])
def test_a_workload_is_written_as_a_shape_or_as_a_key(operator: str, shape: str | None) -> None:
    assert parse_workload(operator, shape).key == K0


@pytest.mark.parametrize(
    ("operator", "shape", "sentence"),
    [
        ("matmul", "0x768x768", "m=0 of matmul is out of range; it must be from 1 to 65536"),
        ("matmul", "-1x768x768", "m=-1 of matmul is out of range; it must be from 1 to 65536"),
        ("matmul", "384x768x99999999999", "out of range; it must be from 1 to 65536"),
        ("matmul", "384x768xmany", "'many' .* is not a whole number; write extents from 1 to"),
        ("matmul", "384x768x1.5", "'1.5' .* is not a whole number"),
        ("matmul", "384x768", "matmul takes 3 extents"),
        ("matmul", "65536x65536x65536", "bytes; at most"),
        (
            "conv9d",
            "1x2x3",
            "'conv9d' is unknown, did you mean conv2d; use one of matmul",
        ),
        ("matmul", None, "'matmul' lacks a shape; write `matmul 384x768x768`"),
        ("matmul:f32:m0", None, "matmul takes 3 extents"),
    ],
)
def test_a_shape_that_cannot_be_tuned_is_refused_with_the_range(
    operator: str, shape: str | None, sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        parse_workload(operator, shape)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tune", "matmul", "-1x2x3"), "from 1 to 65536"),
        (("tune", "matmul", "384x768x768"), "start one with `kernelzoo up`"),
        (("tune", "matmul", "1x1x1", "--target", "cuda"), "use one of wasm, webgpu"),
        (("zoo", "list"), "start one with `kernelzoo up`"),
        (("fleet", "--agents", "2"), "start one with `kernelzoo up`"),
        (("fleet", "--target", "cuda"), "use one of wasm, webgpu"),
        (("up", "--target", "cuda"), "use one of wasm, webgpu"),
        (("demo", "--target", "cuda"), "use one of wasm, webgpu"),
        (("zoo", "list", "--target", "cuda"), "use one of wasm, webgpu"),
    ],
)
def test_an_error_is_a_sentence_and_a_code_without_a_trace(
    arguments: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["kernelzoo", *arguments, "--state", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capfd.readouterr()
    assert ended.value.code == 1
    assert sentence in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("app", "create", "Shop"), "application name 'Shop' is malformed; use lower-case letters"),
        (("app", "create", "shop", "--origin", "shop.example"), "as in https://www.shop.example"),
        (("app", "origins", "shop", "--add", "a b"), "origin 'a b' is malformed; write scheme"),
        (("zoo", "import", "picture.png", "--format", "t4"), "picture.png is no text; name a file"),
        (("zoo", "import", "prose.md", "--format", "t4"), "prose.md is not of the format t4: a T4"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_can(
    arguments: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n")
    (tmp_path / "prose.md").write_text("# Nothing measured\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kernelzoo", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_targets_are_taken_once_each_and_are_wasm_without_any() -> None:
    assert parse_targets(None) == (TargetKind.WASM,)
    both = parse_targets(["webgpu", "wasm", "webgpu"])
    assert both == (TargetKind.WEBGPU, TargetKind.WASM)


def test_candidates_of_the_space_of_a_gpu_model_are_written_as_wgsl(tmp_path: Path) -> None:
    arguments = ("compile", "matmul", "8x8x8", "--output", str(tmp_path), "--gpu-model")
    done = _kernelzoo(*arguments, "nvidia-hopper", "--target", "webgpu")
    assert done.returncode == 0, done.stderr
    (text,) = tmp_path.glob("000-*.wgsl")
    assert "@compute" in text.read_text()
    refused = _kernelzoo(*arguments, "voodoo", "--target", "webgpu")
    assert "GPU model 'voodoo' is unknown; use any, nvidia-" in refused.stderr
    wasm = _kernelzoo(*arguments, "nvidia-hopper")
    assert "add --target webgpu" in wasm.stderr
