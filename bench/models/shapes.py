"""One plan of a range at short, middle and long extents, beside onnxruntime-web at that very extent
and a plan of ours for it alone, in one page and in turns, on default kernels.

The networks have random weights: an encoder of sentences with the extents of MiniLM-L6, one with
those of RoBERTa in four of its twelve layers, MobileNetV2's layers on up to eight pictures of
96 x 96, and decoders with a cache whose lengths are open as well as that of a run: a third of
GPT-2's layers in ONNX's own operators, and four layers of a Llama's whose heads share keys. These
read a prompt behind an empty cache, and make one step behind caches of several lengths. Outputs are
compared with those of onnxruntime on a processor.

Then MiniLM's runs of 500 sentences of the lengths that sentences of documentation have, on the one
plan and on onnxruntime-web with its axes left open; what a run takes longer behind one of another
length; and what a page holds after 2,000 runs of any lengths.
"""

import gzip
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto

from bench.browser import chromium
from bench.kernels.peers import peer_versions
from bench.models.cases import NetworkCase
from bench.models.files import NetworkFiles, publish
from bench.models.memory import ListeningSite
from bench.models.ours import CLASS, ZOO
from bench.models.page import (
    OURS,
    PEER,
    ContestAnswer,
    Entry,
    answer_of,
    cold,
    contest,
    held_by_page,
    models_page,
)
from bench.models.tuning import served_default
from bench.options import parser, run
from bench.page_json import PageJson
from bench.report import Cell, Claim, Report, machine
from fixtures.causal_decoder import CausalDecoder
from fixtures.encoder import Encoder
from fixtures.language_configs import LLAMA
from fixtures.language_onnx import OnnxForm, decoder_feeds, decoder_onnx
from fixtures.model_site import Files, SiteKernels, write_model
from fixtures.quantised_networks import MOBILENET_V2, Images, mobilenet
from kernelzoo.formats.bundle import VERSION
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import PlannedModel, plan_graphs, plan_range
from services.tuner.graph.ranges import ExtentRange, ExtentRanges, Extents
from services.tuner.language.checkpoint import Seeded
from services.tuner.language.config import LanguageConfig

OURS_RANGE = "ours-range"
ROUNDS = 15
COLDS = 3
SENTENCES = 500
RUNS = 2000

FASTER = 1.7
"""Times onnxruntime-web, from so many tokens on."""
FROM_TOKENS = 8
FASTER_STEPS = 1.0
OF_FIXED = 1.05
MIX = 0.55
SWITCH_MS = 0.3
PLAN_BYTES = 1.3
GROWN_MB = 8.0

LENGTHS = (4, 6, 8, 9, 10, 11, 11, 12, 13, 14, 15, 16, 17, 19, 20, 22, 25, 28, 32, 42, 128)
"""Every twentieth of the lengths of 21,141 sentences, shortest first: those of the docstrings of
CPython 3.11's standard library, in words and marks, with one token before and one behind. The
longest are cut to 128."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCase:
    """A network, the dimensions that have a range, and the extents of these at which it is timed.
    `fixed` are other dimensions of its file, and those in `sums` are the sum of all that have a
    range. `faster`: the times onnxruntime-web that are claimed; `is_mixed`: sentences are run."""

    model: Callable[[], ModelProto]
    feeds: Callable[..., Mapping[str, NDArray[Any]]]
    ranges: tuple[ExtentRange, ...]
    extents: tuple[Extents, ...]
    fixed: Mapping[str, int]
    sums: tuple[str, ...] = ()
    faster: float | None = None
    is_mixed: bool = False

    def dimensions(self, extents: Extents) -> dict[str, int]:
        named = {each.name: own for each, own in zip(self.ranges, extents, strict=True)}
        return {**self.fixed, **named, **dict.fromkeys(self.sums, sum(extents))}


def _sentences(
    encoder: Encoder, most: int, lengths: tuple[int, ...], *, is_mixed: bool = False
) -> RangeCase:
    return RangeCase(
        model=encoder.model,
        feeds=encoder.feeds,
        ranges=(ExtentRange(name="sequence", least=1, most=most),),
        extents=tuple((length,) for length in lengths),
        fixed={"batch": 1},
        faster=FASTER,
        is_mixed=is_mixed,
    )


def _decoder(
    model: Callable[[], ModelProto],
    feeds: Callable[[int, int], Mapping[str, NDArray[Any]]],
    most: Extents,
    extents: tuple[Extents, ...],
) -> RangeCase:
    past, sequence = most
    return RangeCase(
        model=model,
        feeds=feeds,
        ranges=(
            ExtentRange(name="past", least=0, most=past),
            ExtentRange(name="sequence", least=1, most=sequence),
        ),
        extents=extents,
        fixed={"batch": 1},
        sums=("total",),
        faster=FASTER_STEPS,
    )


def _llama(config: LanguageConfig, most: Extents, extents: tuple[Extents, ...]) -> RangeCase:
    def model() -> ModelProto:
        return decoder_onnx(config, Seeded(), OnnxForm(plain=True, dense=True))

    return _decoder(model, partial(decoder_feeds, config), most, extents)


def _pictures(images: Images, extents: tuple[int, ...]) -> RangeCase:
    def model() -> ModelProto:
        made = mobilenet(images)
        for port in (*made.graph.input, *made.graph.output):
            if port.type.tensor_type.HasField("shape"):
                port.type.tensor_type.shape.dim[0].dim_param = "batch"
        return made

    def feeds(batch: int) -> Mapping[str, NDArray[Any]]:
        random = np.random.default_rng(batch)
        shape = (batch, 3, images.side, images.side)
        return {"image": random.standard_normal(shape).astype(np.float32)}

    range_ = ExtentRange(name="batch", least=1, most=8)
    counts = tuple((count,) for count in extents)
    return RangeCase(model=model, feeds=feeds, ranges=(range_,), extents=counts, fixed={})


MINILM = Encoder(
    tokens=None, hidden=384, heads=12, inner=1536, layers=6, vocabulary=1000, positions=128,
    embeds=True,
)  # fmt: skip
ROBERTA = Encoder(
    tokens=None, hidden=768, heads=12, inner=3072, layers=4, vocabulary=1000, positions=256
)
GPT_2 = CausalDecoder(hidden=768, heads=12, inner=3072, layers=4, vocabulary=1000, positions=256)
SHARED_KEYS = replace(
    LLAMA, vocabulary=1000, width=576, layers=4, heads=9, kv_heads=3, head_dim=64, hidden=1536,
    length=256,
)  # fmt: skip
"""The extents of SmolLM-135M, which has thirty layers."""
PROMPT = (0, 32)
STEPS = (PROMPT, (32, 1), (96, 1), (190, 1))
SMALL = Encoder(tokens=None)
CASES: Mapping[str, RangeCase] = {
    "minilm": _sentences(MINILM, 128, (8, 16, 24, 48, 64, 128), is_mixed=True),
    "roberta": _sentences(ROBERTA, 256, (8, 32, 100, 256)),
    "pictures": _pictures(
        Images(side=96, first=32, stages=MOBILENET_V2.stages, classes=1000), (1, 3, 8)
    ),
    "gpt2": _decoder(GPT_2.model, GPT_2.feeds, (192, 64), STEPS),
    "llama": _llama(SHARED_KEYS, (192, 64), STEPS),
    "small": _sentences(SMALL, 64, (8, 24), is_mixed=True),
    "small llama": _llama(LLAMA, (12, 12), ((0, 5), (6, 1))),
}
USUAL = ("minilm", "roberta", "pictures", "gpt2", "llama")
SMALL_CASES = ("small", "small llama")
TINY = (
    *("--only", *SMALL_CASES, "--rounds", "2", "--colds", "1"),
    *("--sentences", "8", "--runs", "8"),
)


def main() -> None:
    options = parser("One plan of a range at many extents, beside onnxruntime-web in one page.")
    options.add_argument("--only", nargs="+", choices=CASES, default=list(USUAL))
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--colds", type=int, default=COLDS, help="fresh browsers for each plan")
    options.add_argument("--sentences", type=int, default=SENTENCES)
    options.add_argument("--runs", type=int, default=RUNS, help="whose memory is looked at")
    run(options, measure, tiny=TINY)


class MixAnswer(PageJson, frozen=True, kw_only=True):
    ours_ms: float
    peer_ms: float


class SwitchAnswer(PageJson, frozen=True, kw_only=True):
    switched_ms: tuple[float, ...]
    stayed_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`faster`: onnxruntime-web's median over ours, `of_fixed`: our median over that of the plan
    for these extents alone, and so for the time to the first output (`first_of_fixed`) and the
    bytes of the gzipped plan (`plan_of_fixed`). What is about no one extent has none: `mix`, our
    time over onnxruntime-web's, `switch_ms`, and how much more a page holds at the end of its
    runs."""

    network: str
    extents: Extents
    ours_ms: float | None = None
    fixed_ms: float | None = None
    peer_ms: float | None = None
    faster: float | None = None
    of_fixed: float | None = None
    difference: float | None = None
    plan_of_fixed: float | None = None
    first_of_fixed: float | None = None
    mix: float | None = None
    switch_ms: float | None = None
    grown_mb: float | None = None


def measure(options: Namespace) -> Report:
    rows: list[Row] = []
    browser = ""
    for name in options.only:
        with ListeningSite.serving() as site, TemporaryDirectory() as held:
            measured = _Measured(name, CASES[name], site, Path(held), options)
            for row in measured.rows():
                rows.append(row)
                cells = [(key, cell) for key, cell in _cells(row).items() if cell is not None]
                print(" ".join(f"{key} {_short(cell)}" for key, cell in cells), flush=True)
            browser = measured.browser
    return Report(
        name="models-shapes",
        machine=machine(browser=browser, rounds=options.rounds, **peer_versions()),
        rows=[_cells(row) for row in rows],
        claims=list(_claims(rows)),
    )


def _cells(row: Row) -> dict[str, Cell]:
    return {**asdict(row), "extents": ", ".join(map(str, row.extents))}


def _short(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def _claims(rows: Sequence[Row]) -> Iterator[Claim]:
    bounds: tuple[tuple[str, str, str, float], ...] = (
        ("of_fixed", "over a plan for it alone", "of its time", OF_FIXED),
        ("difference", "difference to onnxruntime", "", 1e-4),
        ("plan_of_fixed", "plan over one for it alone, gzip", "of its bytes", PLAN_BYTES),
        ("first_of_fixed", "first output over that of such a plan", "of its time", OF_FIXED),
        ("mix", f"{SENTENCES} sentences over onnxruntime-web", "of its time", MIX),
        ("switch_ms", "another extent than the run before", "ms", SWITCH_MS),
        ("grown_mb", f"memory after {RUNS} runs", "MB more", GROWN_MB),
    )
    for row in rows:
        case = CASES[row.network]
        name = ", ".join((row.network, *map(str, row.extents)))
        # One token behind a cache is a step of its own.
        is_long = sum(row.extents) >= FROM_TOKENS
        if row.faster is not None and case.faster is not None and is_long:
            yield Claim.at_least(f"{name}: beside onnxruntime-web", row.faster, "×", case.faster)
        for key, what, unit, bound in bounds:
            value = getattr(row, key)
            if value is not None:
                yield Claim.at_most(f"{name}: {what}", value, unit, bound)


class _Measured:
    """One network: its plans and documents are made once."""

    def __init__(
        self, name: str, case: RangeCase, site: ListeningSite, folder: Path, options: Namespace
    ) -> None:
        self.browser = ""
        self._name, self._case, self._site, self._options = name, case, site, options
        self._folder = folder
        self._key = name.replace(" ", "-")
        self._onnx = folder / f"{self._key}.onnx"
        onnx.save(case.model(), self._onnx)
        self._session = onnxruntime.InferenceSession(str(self._onnx))
        empty = {"bundle": VERSION, "set": "none", "manifests": []}
        site.publish(f"{ZOO}/bundle.json", msgspec.json.encode(empty))
        ranges = ExtentRanges(case.ranges)
        sizes = case.dimensions(ranges.most)
        ranged = plan_range(self._at, ranges, sizes, f"{self._key}-range")
        self._range, self._range_bytes = self._served(ranged)
        self._documents = {extents: self._document(extents) for extents in case.extents}

    def _at(self, *extents: int) -> Any:
        return import_model(self._onnx, self._case.dimensions(extents))

    def _served(self, planned: PlannedModel) -> tuple[str, int]:
        """The address of a plan's answer, and its bytes, gzipped."""
        (plan,), (golden,) = planned.plans, planned.golden
        folder = self._folder / plan.model
        kernels = {
            each.key: SiteKernels(candidate=served_default(each), fallback=served_default(each))
            for each in planned.workloads
        }
        files = Files(weights=b"".join(planned.weights.blocks()), golden=golden)
        answer = write_model(folder, CLASS, plan, files, kernels)
        for file in folder.rglob("*"):
            self._site.lend(f"{ZOO}/{plan.model}/{file.relative_to(folder).as_posix()}", file)
        told = msgspec.json.decode(answer.read_bytes())["plan"]
        return f"{ZOO}/{plan.model}/{answer.name}", len(gzip.compress(msgspec.json.encode(told)))

    def _document(self, extents: Extents) -> tuple[str, int]:
        """The address of what a page needs at some extents, and the bytes of a plan for them
        alone."""
        name = "-".join((self._key, *map(str, extents)))
        sizes = self._case.dimensions(extents)
        address, plan_bytes = self._served(plan_graphs([self._at(*extents)], [sizes], name))
        feeds = self._case.feeds(*extents)
        names = [each.name for each in self._session.get_outputs()]
        files = NetworkFiles(
            # By numbers for a decoder's axes onnxruntime-web 1.30 makes integers of another type.
            case=NetworkCase(name=name, dimensions={} if self._case.sums else sizes),
            onnx=self._onnx,
            tflite=None,
            tensorflow=None,
            inputs=feeds,
            outputs=dict(zip(names, self._session.run(None, dict(feeds)), strict=True)),
        )
        return publish(self._site, files, address, self._range), plan_bytes

    def rows(self) -> Iterator[Row]:
        last = self._case.extents[-1]
        for extents, (document, plan_bytes) in self._documents.items():
            engines = (OURS_RANGE, OURS, PEER)
            entries = [Entry(engine=engine, threads=1) for engine in engines]
            answer, self.browser = contest(self._site.url, document, entries, self._options.rounds)
            row = self._timed(extents, answer)
            if extents == last:
                first = self._first_ms(document, OURS_RANGE) / self._first_ms(document, OURS)
                row = replace(
                    row, plan_of_fixed=self._range_bytes / plan_bytes, first_of_fixed=first
                )
            yield row
        if self._case.is_mixed:
            yield self._sentences_row(self._documents[last][0])

    def _timed(self, extents: Extents, answer: ContestAnswer) -> Row:
        ours, fixed, peer = (median(each.samples_ms) for each in answer.timed)
        return Row(
            network=self._name,
            extents=extents,
            ours_ms=ours,
            fixed_ms=fixed,
            peer_ms=peer,
            faster=peer / ours,
            of_fixed=ours / fixed,
            difference=answer.timed[0].difference,
        )

    def _first_ms(self, document: str, engine: str) -> float:
        times = [cold(self._site.url, document, engine) for _ in range(self._options.colds)]
        return median(each.first_output_ms for each in times)

    def _sentences_row(self, document: str) -> Row:
        options, (most,) = self._options, self._case.extents[-1]
        random = np.random.default_rng(0)
        places = dict.fromkeys(self._case.feeds(1), 1)

        def asked(extents: NDArray[np.int64]) -> dict[str, object]:
            return {"places": places, "extents": extents.tolist()}

        quantiles = random.random(options.sentences)
        known = np.interp(quantiles, np.linspace(0, 1, len(LENGTHS)), LENGTHS)
        lengths = np.minimum(known.astype(np.int64), most)
        any_length = random.integers(1, most + 1, options.runs)
        with chromium() as browser, models_page(browser, self._site.url) as page:
            mix = msgspec.json.decode(
                answer_of(page, "mix", document, asked(lengths)), type=MixAnswer
            )
            switch = msgspec.json.decode(
                answer_of(page, "switches", document, asked(lengths)), type=SwitchAnswer
            )
            answer_of(page, "random", document, asked(any_length[: options.runs // 10]))
            before = held_by_page()
            answer_of(page, "random", document, asked(any_length))
            grown = held_by_page().peak_bytes - before.peak_bytes
        longer = np.subtract(switch.switched_ms, switch.stayed_ms)
        return Row(
            network=self._name,
            extents=(),
            mix=mix.ours_ms / mix.peer_ms,
            switch_ms=float(np.median(longer)),
            grown_mb=grown / 1e6,
        )


if __name__ == "__main__":
    main()
