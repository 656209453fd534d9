"""A file of ONNX, or a folder of a language model, as what is sent to a gateway."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from cli.models.dimensions import (
    MOST_RANGES,
    DimensionRange,
    DimensionSum,
    PlanChoice,
    Value,
    plan_choices,
    written,
)
from cli.models.sending import ImportedModel, Told
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import Form
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.weight_storage import StorageType
from kernelzoo.domain.workload import ProgramWorkload
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.gateway.wire.models import SourceHashes

if TYPE_CHECKING:
    from services.tuner.graph.graph import Graph
    from services.tuner.graph.models import PlannedModel
    from services.tuner.graph.network import Network
    from services.tuner.graph.quantising import QuantisedModel
    from services.tuner.graph.storing import Storing

CONTEXT, SOURCE = "context", "source"
"""The dimensions of a language model: the tokens that it has room for, and with an encoder those
that this has room for."""
MAX_ERROR = 0.01
QUANTISED_MAX_ERROR = 0.05
"""Six layers of MiniLM's extents with random weights differ by 3.6 %."""


class QuantizeChoice(StrEnum):
    INT8 = "int8"


class MetricChoice(StrEnum):
    """Says how far quantised outputs are from those of f32 (`services.tuner.graph.quantising`)."""

    LARGEST = "largest"
    COSINE = "cosine"


USUAL_ERRORS = {MetricChoice.LARGEST: QUANTISED_MAX_ERROR, MetricChoice.COSINE: 0.01}


LISTED = 8
"""Products that a report names."""


class WeightsChoice(StrEnum):
    F32 = "f32"
    F16 = "f16"
    INT8 = "int8"
    INT4 = "int4"
    AUTO = "auto"


class ValuesDtype(StrEnum):
    """Values of a network, or the cache of a language model, have this dtype in memory on
    WebGPU."""

    FILE = "file"
    F32 = "f32"
    F16 = "f16"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedWeights:
    """Weights are to be stored so, by default as in the file, and golden outputs may differ so much
    from those of f32. With `quantize` products with constant weights multiply bytes, as far as
    outputs for the inputs in `calibrate`, or else golden ones, are near by the `metric`: in plans
    of their own beside those of f32, or without these (`keeps_f32`)."""

    choice: WeightsChoice | None = None
    max_error: float = MAX_ERROR
    quantize: QuantizeChoice | None = None
    metric: MetricChoice = MetricChoice.LARGEST
    calibrate: Path | None = None
    keeps_f32: bool = True

    def storing(self, usual: WeightsChoice) -> "Storing | None":
        """None for f32."""
        from services.tuner.graph.storing import Storing

        choice = self.choice or usual
        if choice is WeightsChoice.F32:
            return None
        storage = None if choice is WeightsChoice.AUTO else StorageType(choice)
        return Storing(storage=storage, max_error=self.max_error)


AS_IN_FILE = WantedWeights()
_FORMS = {
    None: Form(),
    WeightsChoice.F32: Form(),
    WeightsChoice.INT4: Form(),
    WeightsChoice.INT8: Form(width=8),
}
"""Matrices of language models are quantised to these forms, also where nothing is asked for."""


def is_language_model(path: Path, dimensions: tuple[Mapping[str, int], ...]) -> bool:
    """A folder is one, and a file of a decoder; a step of a decoder with the extents of its cache
    is a network like any other."""
    from services.tuner.language.onnx_decoder import is_decoder

    if path.is_dir():
        if not (path / "config.json").is_file():
            raise InvalidInput(
                f"{path} has no config.json; name the folder of a language model, with that and "
                "*.safetensors, or a file of ONNX"
            )
        return True
    return not set().union(*dimensions) - {CONTEXT} and is_decoder(path)


def imported(
    file: Path,
    name: str,
    dimensions: tuple[Mapping[str, int], ...],
    weights: Path,
    told: Told,
    wanted: WantedWeights = AS_IN_FILE,
    *,
    constants: tuple[Mapping[str, Value], ...] = ({},),
    f16: bool | None = False,
    ranges: tuple[DimensionRange, ...] = (),
    sums: tuple[DimensionSum, ...] = (),
) -> ImportedModel:
    """Writes the weights of all plans to the file `weights`. There is a plan for each of the
    `dimensions` with each of the `constants`; where none are given, one for all extents that memory
    allows of what the file leaves open; with `ranges` one for all extents of some dimensions,
    of f32, and `sums` are dimensions that follow from these. With `f16` there are plans for WebGPU,
    too: of a language model such with a cache of f16, of a network such with values of f16 and a
    file of weights beside, which None makes where the file's weights are f16. Raises InvalidInput
    or UnsupportedModel for what cannot be imported.
    """
    choices = plan_choices(dimensions, constants)
    decodes = not any(constants) and is_language_model(file, dimensions)
    if ranges:
        _refuse_range(file, ranges[-1], decodes=decodes, f16=f16)
        return _range(file, name, choices, weights, told, wanted, ranges, sums)
    told(f"importing {file.name} for {'; '.join(written(each.named) for each in choices)}")
    if not decodes and not f16 and wanted.quantize is None and len(choices) == 1:
        made = _opened(file, name, choices[0], weights, told, wanted)
        if made is not None:
            return made
    if decodes:
        if wanted.quantize is not None:
            raise InvalidInput(
                f"{file.name} is a language model; its weights have 4 or 8 bits by --weights int4 "
                "or --weights int8, so leave --quantize out"
            )
        made = _written(_decoder(file, name, dimensions, wanted), weights, told)
        if not f16:
            return made
        told("planning it with a cache of f16")
        halved = _decoder(file, name, dimensions, wanted, f16=True)
        return replace(made, f16=_imported(halved, weights))
    return _network(file, name, choices, weights, told, wanted, f16=f16)


def _opened(
    file: Path, name: str, choice: PlanChoice, weights: Path, told: Told, wanted: WantedWeights
) -> ImportedModel | None:
    """One plan of all extents that memory allows, where nobody says any; None for a model that
    leaves nothing open, or more dimensions than a plan has ranges. Raises as `imported` does."""
    if choice.dimensions:
        return None
    from services.tuner.graph.open_bounds import open_dimensions
    from services.tuner.graph.reading import read_model

    found = open_dimensions(read_model(file), choice.constants)
    if found is None or len(found.ranges) > MOST_RANGES:
        return None
    sums = tuple(DimensionSum(name=each, terms=of, more=0) for each, of in found.sums.items())

    def made(fixed: Mapping[str, int]) -> ImportedModel:
        ranges = tuple(
            DimensionRange(name=each.name, least=each.least, most=each.most)
            for each in found.ranges
            if each.name not in fixed
        )
        own = replace(choice, dimensions={**fixed, **{each.name: each.most for each in ranges}})
        model = _range(file, name, (own,), weights, told, wanted, ranges, sums)
        shown = " ".join(f"--dim {each.name}={each.least}..{each.most}" for each in ranges)
        given = "".join(f" --dim {each}={n}" for each, n in fixed.items())
        line = (
            f"{file.name} leaves dimensions open, and no --dim says how far: it was imported as by "
            f"{shown}{given}; give others where pages need more, or less memory"
        )
        return replace(model, remarks=(*model.remarks, line))

    batch = found.batch if len(found.ranges) > 1 else None
    if batch is None:
        return made({})
    try:
        return made({})
    except UnsupportedModel:
        # Entries of a batch may depend on one another; then there is a plan for one of them.
        return made({batch: 1})


def _written(model: "PlannedModel", weights: Path, told: Told) -> ImportedModel:
    told("writing the weights")
    model.weights.write(weights)
    return _imported(model, weights)


def _written_of(file: Path, model: "PlannedModel", weights: Path, told: Told) -> ImportedModel:
    """Adds what pages that have the file need: its hashes, and which weights lie in it."""
    from services.tuner.graph.original_map import original_map
    from services.tuner.graph.source_hashes import read_source

    source = read_source(file)
    planned = [weight for plan in model.plans for weight in plan.weights]
    return replace(
        _written(model, weights, told),
        source_hashes=SourceHashes(graph=source.hashes.graph, weights=source.hashes.weights),
        original=original_map(model.weights, planned, source.places),
    )


def _imported(model: "PlannedModel", weights: Path) -> ImportedModel:
    """`weights` is written already."""
    programs = (each for each in model.workloads if isinstance(each, ProgramWorkload))
    return ImportedModel(
        plans=model.plans,
        golden=model.golden,
        weights=weights,
        programs={each.key: str(each.program) for each in programs},
        wide=model.wide,
    )


# ONNX and NumPy take half a second to load, which the other commands need not wait for.


def _network(
    file: Path,
    name: str,
    choices: tuple[PlanChoice, ...],
    weights: Path,
    told: Told,
    wanted: WantedWeights,
    *,
    f16: bool | None,
) -> ImportedModel:
    from services.tuner.graph.calibration import calibration_feeds
    from services.tuner.graph.features import remarks
    from services.tuner.graph.golden import golden_file
    from services.tuner.graph.importing import fixed_network, graph_of
    from services.tuner.graph.models import plan_f16, plan_graphs
    from services.tuner.graph.quantising import Bound, Metric, quantised_model
    from services.tuner.graph.reading import read_model

    read = read_model(file)
    for line in remarks(read.graph):
        told(line)
    if wanted.quantize is not None and wanted.choice not in (None, WeightsChoice.F32):
        raise InvalidInput(
            f"--quantize {wanted.quantize} keeps the weights of products in 8 bits; leave "
            f"--weights {wanted.choice} out"
        )
    networks = [fixed_network(read, each.dimensions, constants=each.constants) for each in choices]
    graphs = [graph_of(network) for network in networks]
    dimensions = [each.named for each in choices]
    for graph, named in zip(graphs, dimensions, strict=True):
        computed = {port.name for port in graph.outputs}
        empty = [output.name for output in read.graph.output if output.name not in computed]
        if empty:
            told(f"left out for {written(named)}: {', '.join(empty)} would have no entries")
    usual = WeightsChoice.F16 if read.has_f16_weights else WeightsChoice.F32
    golden = [golden_file(graph) for graph in graphs]
    lines = _remarks(file, read.opsets[""])
    storing = wanted.storing(usual)
    quantised = None
    if wanted.quantize is not None:
        told("quantising its products")
        feeds = [calibration_feeds(wanted.calibrate, each) for each in graphs if wanted.calibrate]
        bound = Bound(max_error=wanted.max_error, metric=Metric(wanted.metric), feeds=feeds)
        found = quantised_model(networks, graphs, golden, bound)
        lines += _quantised_told(found, wanted, networks[0])
        quantised = plan_graphs(found.graphs, dimensions, name, storing=storing, right=found.golden)
        _refuse_unquantised(file, quantised)
    if quantised is not None and not wanted.keeps_f32:
        return replace(_written_of(file, quantised, weights, told), remarks=lines)
    model = plan_graphs(graphs, dimensions, name, storing=storing, right=golden)
    if quantised is not None and Precision.INT8 in _precisions(model):
        line = f"{file.name} multiplies bytes itself: it has no plans of f32 beside those of int8"
        return replace(_written_of(file, quantised, weights, told), remarks=(*lines, line))
    made = replace(_written_of(file, model, weights, told), remarks=lines)
    if quantised is not None:
        beside = weights.with_name(f"{weights.name}.{wanted.quantize}")
        made = replace(made, int8=_written(quantised, beside, told))
    if not (read.has_f16_weights if f16 is None else f16):
        return made
    told("planning it with values of f16")
    halved = plan_f16(graphs, dimensions, name, wanted.max_error, golden)
    beside = weights.with_name(f"{weights.name}.f16")
    return replace(made, f16=_written(halved, beside, told))


def _precisions(model: "PlannedModel") -> set[Precision]:
    return {Precision.of_kernels(plan.kernels) for plan in model.plans}


def _refuse_unquantised(file: Path, model: "PlannedModel") -> None:
    """Raises InvalidInput where what was quantised is computed of numbers of f32 all the same: it
    would err for nothing."""
    if Precision.F32 in _precisions(model):
        raise InvalidInput(
            f"no kernel multiplies bytes in what of {file.name} may be quantised, as in a "
            "convolution of one entry or of each channel by itself; leave --quantize out"
        )


def _quantised_told(
    found: "QuantisedModel", wanted: WantedWeights, network: "Network"
) -> tuple[str, ...]:
    """Says how many products multiply bytes, what that errs by, and which do not."""
    images = {step.label for step in network.steps if step.operator == "Conv"}
    line = (
        f"{_share(found, images)} multiply bytes; golden outputs differ by {found.error:.2g} of "
        "their largest magnitude"
    )
    if wanted.calibrate or wanted.metric is MetricChoice.COSINE:
        inputs = wanted.calibrate.name if wanted.calibrate else "the golden inputs"
        line += f"; by {wanted.metric}, with {inputs}, outputs are {found.apart:.2g} apart"
    lines = [line]
    if found.left:
        some = list(found.left.items())[:LISTED]
        named = ", ".join(f"{label} ({loss:.2g})" for label, loss in some)
        more = f" and {len(found.left) - LISTED} more" if len(found.left) > LISTED else ""
        lines.append(f"left in f32, with the share that each would lose: {named}{more}")
    if images & found.quantised and not wanted.calibrate:
        lines.append(
            "images are quantised by their range in each run; --calibrate with inputs that the "
            "model is for fixes their ranges, and they go from layer to layer as bytes"
        )
    return tuple(lines)


def _share(found: "QuantisedModel", images: set[str]) -> str:
    """Counts products and convolutions, those that are there."""
    every = found.quantised | set(found.left)
    kinds = (("products", every - images), ("convolutions", every & images))
    return " and ".join(
        f"{len(found.quantised & labels)} of {len(labels)} {kind}"
        for kind, labels in kinds
        if labels
    )


def _refuse_range(file: Path, extents: DimensionRange, *, decodes: bool, f16: bool | None) -> None:
    """Raises InvalidInput where a range says nothing, or something else was asked for with it."""
    if decodes:
        raise InvalidInput(
            f"{file.name} is a language model, which takes texts of every length up to one: write "
            f"--dim {CONTEXT}={extents.most}"
        )
    if f16:
        raise InvalidInput(
            "plans with values of f16 are of one extent each; leave --dtype f16 out, or give --dim "
            f"{extents.name} its extents one by one, as in --dim {extents.name}={extents.most}"
        )


def _range(
    file: Path,
    name: str,
    choices: tuple[PlanChoice, ...],
    weights: Path,
    told: Told,
    wanted: WantedWeights,
    ranges: tuple[DimensionRange, ...],
    sums: tuple[DimensionSum, ...],
) -> ImportedModel:
    from services.tuner.graph.batches import BatchRange
    from services.tuner.graph.importing import imported as imported_graph
    from services.tuner.graph.models import plan_range
    from services.tuner.graph.ranges import ExtentRange, ExtentRanges
    from services.tuner.graph.reading import read_model

    shown = " ".join(f"--dim {each.name}={each.least}..{each.most}" for each in ranges)
    fixed = " ".join(f"--dim {each.name}={each.most}" for each in ranges)
    if wanted.quantize is not None:
        raise InvalidInput(
            f"--quantize makes plans of one extent each; in the place of {shown} give extents one "
            f"by one, as in {fixed}"
        )
    if len(choices) > 1:
        raise InvalidInput(
            f"{shown} is one plan; give each of the other dimensions and constants one value"
        )
    (choice,) = choices
    names = {each.name for each in ranges}
    others = {each: n for each, n in choice.dimensions.items() if each not in names}
    extents = ", ".join(f"{each.name}={each.least}..{each.most}" for each in ranges)
    told(f"importing {file.name} for {extents}" + (f", {written(others)}" if others else ""))
    read = read_model(file)

    def at(open_: ExtentRanges, extents: Sequence[int], **others: int) -> "Graph":
        named = zip((each.name for each in open_.ranges), extents, strict=True)
        dimensions = {**choice.dimensions, **dict(named), **others}
        dimensions |= {each.name: each.extent(dimensions) for each in sums}
        return imported_graph(read, dimensions, constants=choice.constants)

    def batch_of(own: ExtentRange) -> BatchRange | None:
        rest = ExtentRanges(tuple(each for each in found if each is not own))
        batch = BatchRange(
            extents=own,
            imported_at=lambda extents, entries: at(rest, extents, **{own.name: entries}),
        )
        return batch if rest.ranges and batch.is_batch(rest.most) else None

    found = [ExtentRange(name=each.name, least=each.least, most=each.most) for each in ranges]
    batch = next(filter(None, map(batch_of, found)), None)
    alone = {} if batch is None else {batch.extents.name: 1}
    open_ = ExtentRanges(tuple(each for each in found if each.name not in alone))
    usual = WeightsChoice.F16 if read.has_f16_weights else WeightsChoice.F32
    model = plan_range(
        lambda *extents: at(open_, extents, **alone),
        open_,
        choice.named,
        name,
        wanted.storing(usual),
        batch,
    )
    made = _written_of(file, model, weights, told)
    return replace(made, remarks=_remarks(file, read.opsets[""]))


def _remarks(file: Path, opset: int) -> tuple[str, ...]:
    from services.tuner.graph.reading import FIRST_CURRENT_OPSET

    if opset >= FIRST_CURRENT_OPSET:
        return ()
    return (f"{file.name} is of opset {opset}: its operators were carried over to those of today",)


def _decoder(
    path: Path,
    name: str,
    dimensions: tuple[Mapping[str, int], ...],
    wanted: WantedWeights,
    *,
    f16: bool = False,
) -> "PlannedModel":
    from services.tuner.encoder_decoder.config_file import is_encoder_decoder
    from services.tuner.language.planning import plan_language_model

    if path.is_dir() and is_encoder_decoder(path):
        return _encoder_decoder(path, name, dimensions, wanted, f16=f16)
    form = _FORMS.get(wanted.choice)
    if form is None:
        raise InvalidInput(
            "language models have weights of 4 or 8 bits: write --weights int4, which is usual, "
            "or int8"
        )
    if set().union(*dimensions) - {CONTEXT}:
        raise InvalidInput(
            f"{path.name} is a language model; its one dimension is --dim {CONTEXT}=2048, the "
            f"tokens that it has room for, or several of them, --dim {CONTEXT}=1024,8192"
        )
    lengths = [each[CONTEXT] for each in dimensions if each]
    cache = DType.F16 if f16 else DType.F32
    return plan_language_model(path, name, lengths, form, cache, wanted.max_error)


def _encoder_decoder(
    path: Path,
    name: str,
    dimensions: tuple[Mapping[str, int], ...],
    wanted: WantedWeights,
    *,
    f16: bool,
) -> "PlannedModel":
    from services.tuner.encoder_decoder.planning import plan_encoder_decoder

    if f16:
        raise InvalidInput(
            f"{path.name} has an encoder, and the cache of such a model is f32; leave --dtype f16 "
            "out"
        )
    # They are small, and a translation suffers from 4 bits more than a conversation does.
    form = _FORMS.get(wanted.choice or WeightsChoice.INT8)
    if form is None:
        raise InvalidInput(
            "models with an encoder have weights of 8 or 4 bits: write --weights int8, which is "
            "usual, or int4"
        )
    if set().union(*dimensions) - {CONTEXT, SOURCE}:
        raise InvalidInput(
            f"{path.name} has an encoder and a decoder; its dimensions are --dim {SOURCE}=256, the "
            f"tokens that the encoder has room for, and --dim {CONTEXT}=128, those of the decoder"
        )
    lengths = [(each.get(CONTEXT), each.get(SOURCE)) for each in dimensions]
    if len({source for _, source in lengths}) > 1:
        raise InvalidInput(
            f"{path.name} has an encoder, which takes texts of every length up to one: give --dim "
            f"{SOURCE} once, as in --dim {SOURCE}={max(each[SOURCE] for each in dimensions)}"
        )
    return plan_encoder_decoder(path, name, lengths, form)
