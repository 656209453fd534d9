"""`kernelzoo models add|list|show|remove|check|types`: networks that pages run whole."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cli.figures import duration, number
from cli.gateway_client import GatewayClient, reach
from cli.listing import Column, Listing, print_json, show_all
from cli.models.check import check_added, check_model
from cli.models.dimensions import (
    in_bytes,
    parse_constants,
    parse_dimensions,
    parse_ranges,
    parse_sums,
    plan_choices,
    written,
)
from cli.models.importing import (
    MAX_ERROR,
    QUANTISED_MAX_ERROR,
    USUAL_ERRORS,
    MetricChoice,
    QuantizeChoice,
    ValuesDtype,
    WantedWeights,
    WeightsChoice,
    imported,
    is_language_model,
)
from cli.models.readiness import wait_until_ready
from cli.models.sending import ImportedModel, Told, send
from cli.models.typescript import declarations
from cli.options import (
    STATE,
    JsonOption,
    StateOption,
    TargetsOption,
    UrlOption,
    parse_targets,
)
from cli.stack.signals import INTERRUPTED, interruptible
from cli.terminal import live_display, megabytes, note, notes, out
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Plan
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.errors import InvalidInput
from services.gateway.wire.models import ListedModel, PlanCoverage, PlanWire, Registered, WrongPlan

app = typer.Typer(help="Networks that pages run whole.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A model's name.")]
DimOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        help="As in batch=1 or sequence=128,384, or sequence=1..128 for one plan of them all, or "
        "total=past+sequence for what follows from these; may be repeated.",
    ),
]
ConstantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--constant",
        help="An input whose value is known, as in sr=16000 or cached=true; may be repeated.",
    ),
]


@app.command()
def add(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, help="A file of ONNX, or a language model's folder of safetensors."
        ),
    ],
    name: Annotated[str, typer.Option("--name", help="What pages ask for; a-z, 0-9, . _ -")],
    dim: DimOption = None,
    constant: ConstantOption = None,
    weights_url: Annotated[
        str | None,
        typer.Option(
            help="Where the weights lie, if not in the zoo; they are written to --output."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the weights, too.")
    ] = None,
    target: TargetsOption = None,
    weights: Annotated[
        WeightsChoice | None,
        typer.Option(
            help="How a page fetches the weights; auto takes the smallest of each. Of a language "
            "model those that it computes with: int4, which is usual, or int8. As in the file, f32 "
            "or f16, unless told."
        ),
    ] = None,
    dtype: Annotated[
        ValuesDtype,
        typer.Option(
            help="What values are in memory on WebGPU; elsewhere they are f32. As the file's "
            "weights, unless told. Of a language model its cache: f32 unless told."
        ),
    ] = ValuesDtype.FILE,
    quantize: Annotated[
        QuantizeChoice | None,
        typer.Option(
            help="Add plans that multiply bytes: activations by their range in each run, weights "
            "by a scale for each column. Products that lose most stay f32 until --max-error holds. "
            "Pages are given the faster of both."
        ),
    ] = None,
    f32: Annotated[
        bool,
        typer.Option(
            "--f32/--no-f32", help="With --quantize: keep the plans that multiply numbers of f32."
        ),
    ] = True,
    max_error: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="By how much of their largest magnitude golden outputs may differ for fewer bits; "
            f"{MAX_ERROR} unless told, {QUANTISED_MAX_ERROR} with --quantize. With --metric cosine "
            f"what a cosine may lack to 1, {USUAL_ERRORS[MetricChoice.COSINE]} unless told.",
        ),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="With --quantize: a file .npz with an array for each input, by its name. Its "
            "outputs decide what stays f32, in the place of golden ones, and are not sent.",
        ),
    ] = None,
    metric: Annotated[
        MetricChoice,
        typer.Option(
            help="With --quantize: how far outputs are from those of f32, by the furthest entry or "
            "by their cosine."
        ),
    ] = MetricChoice.LARGEST,
    replace: Annotated[bool, typer.Option("--replace", help="Put it in another's place.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until pages can run it.")] = True,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Import a model, register it, and have its workloads tuned."""
    if weights_url and output is None:
        raise InvalidInput(
            "--weights-url says where pages find the weights; name a file with --output, to which "
            "they are written so that you can put them there"
        )
    if quantize is None and (calibrate or metric is not MetricChoice.LARGEST):
        raise InvalidInput(
            "--calibrate and --metric say what may be quantised; add --quantize int8, or leave "
            "them out"
        )
    _refuse_precisions(quantize, weights_url, keeps_f32=f32)
    ranges, others = parse_ranges(dim or ())
    sums, others = parse_sums(others, ranges)
    dimensions, constants = parse_dimensions(others), parse_constants(constant or ())
    decodes = not constant and is_language_model(file, dimensions)
    f16 = _f16(dtype, target, None if decodes else weights_url)
    with reach(state, url) as gateway, TemporaryDirectory() as folder, live_display(notes) as shown:

        def told(line: str) -> None:
            shown(f"{name}: {line}", None)

        written_to = output or Path(folder) / "weights.bin"
        usual = MAX_ERROR if quantize is None else USUAL_ERRORS[metric]
        error = usual if max_error is None else max_error
        wanted = WantedWeights(
            choice=weights,
            max_error=error,
            quantize=quantize,
            metric=metric,
            calibrate=calibrate,
            keeps_f32=f32,
        )
        model = imported(
            file,
            name,
            dimensions,
            written_to,
            told,
            wanted,
            constants=constants,
            f16=f16,
            ranges=ranges,
            sums=sums,
        )
        both = model.f16 is not None or decodes
        made = send(
            gateway,
            model,
            source=file.name[:64],
            replace=replace,
            weights_url=weights_url,
            told=told,
            targets=_targets(target, both=both),
        )
        if wait:
            _wait(gateway, name, told)
            on_wasm = TargetKind.WASM in _targets(target, both=both)
            if on_wasm and not decodes:
                check_added(gateway, name, model.weights_by_precision, told)
    for remark in model.remarks:
        note(remark)
    if as_json:
        print_json(made)
        return
    _tell_added(made, model, ready=wait)


def _refuse_precisions(
    quantize: QuantizeChoice | None, weights_url: str | None, *, keeps_f32: bool
) -> None:
    if quantize is None and not keeps_f32:
        raise InvalidInput(
            "without --quantize int8 a model has no other plans than those of --f32; add it, or "
            "leave --no-f32 out"
        )
    if quantize is not None and keeps_f32 and weights_url:
        raise InvalidInput(
            "--weights-url names one file, and a model of f32 and of int8 has two; add --no-f32, "
            "or leave its weights in the zoo"
        )


def _wait(gateway: GatewayClient, name: str, told: Told) -> None:
    try:
        with interruptible():
            wait_until_ready(gateway, name, told)
    except KeyboardInterrupt:
        note(f"{name} is registered; its kernels are compiled without this command")
        raise typer.Exit(INTERRUPTED) from None


def _targets(asked: list[str] | None, *, both: bool) -> tuple[TargetKind, ...]:
    """Unless told, both for what is made for a GPU, as it runs on WebAssembly where there is none:
    a language model, and a network with values of f16."""
    return MEASURED if both and not asked else parse_targets(asked)


def _f16(dtype: ValuesDtype, asked: list[str] | None, weights_url: str | None) -> bool | None:
    """None to do as the file does. Raises InvalidInput where f16 was asked for and cannot be."""
    refusal = ""
    if asked and TargetKind.WEBGPU not in parse_targets(asked):
        refusal = f"values of f16 are for webgpu; add --target {TargetKind.WEBGPU}"
    if weights_url:
        refusal = (
            "--weights-url names one file, and a model with values of f16 has two: for WebGPU and "
            "for the others; leave its weights in the zoo"
        )
    if refusal and dtype is ValuesDtype.F16:
        raise InvalidInput(refusal)
    if refusal or dtype is ValuesDtype.F32:
        return False
    return True if dtype is ValuesDtype.F16 else None


@app.command("list")
def list_models(
    as_json: JsonOption = False, state: StateOption = STATE, url: UrlOption = None
) -> None:
    """One line for each."""
    with reach(state, url) as gateway:
        found = gateway.models()
    show_all(
        found,
        COLUMNS,
        _row,
        none="no model yet; `kernelzoo models add model.onnx --name NAME` registers one",
        as_json=as_json,
    )


COLUMNS = (
    Column(heading="model"),
    Column(heading="plans", right=True),
    Column(heading="workloads", rank=3, right=True),
    Column(heading="GFLOP", rank=1, right=True),
    Column(heading="weights", rank=2, right=True),
    Column(heading="of", rank=4),
)


def _row(model: ListedModel) -> tuple[str, ...]:
    return (
        model.name,
        str(model.plans),
        str(model.workloads),
        number(model.flops / 1e9, digits=2),
        megabytes(model.weights_bytes),
        model.source,
    )


@app.command()
def show(
    name: NameArgument,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """A model's inputs and outputs, and how far it is tuned on each class of devices."""
    with reach(state, url) as gateway:
        model, covered = gateway.model(name), gateway.model_coverage(name)
    if as_json:
        print_json({**covered.model_dump(mode="json"), **model.model_dump(mode="json")})
        return
    out.print(f"{model.name}, of {model.source}, added {_day(model.added_at)}", markup=False)
    for plan in model.plans:
        for line in _plan_lines(plan):
            out.print(line, markup=False)
    if covered.wrong:
        out.print("wrong with default kernels, as pages say:", markup=False)
        Listing(columns=WRONG, rows=tuple(map(_wrong_row, covered.wrong))).show()
    if covered.coverage:
        rows = tuple(_coverage_row(each, model.plans) for each in covered.coverage)
        Listing(columns=COVERAGE, rows=rows).show()
    else:
        note("no device has measured anything of it yet; run `kernelzoo fleet --agents 5`")


def _day(at: str) -> str:
    return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


COVERAGE = (
    Column(heading="device class"),
    Column(heading="plan"),
    Column(heading="confirmed", right=True),
    Column(heading="of operations", rank=2, right=True),
    Column(heading="expected", right=True),
    Column(heading="prepared in", rank=3, right=True),
    Column(heading="page loads", rank=1, right=True),
)


WRONG = (
    Column(heading="device class"),
    Column(heading="plan"),
    Column(heading="output"),
    Column(heading="networks", right=True),
    Column(heading="since", rank=1),
    Column(heading="last", rank=2),
)


def _wrong_row(wrong: WrongPlan) -> tuple[str, ...]:
    return (
        wrong.device_class,
        _named(wrong),
        ", ".join(wrong.outputs),
        str(wrong.networks),
        _day(wrong.since),
        _day(wrong.last_at),
    )


def _named(plan: PlanWire | WrongPlan) -> str:
    least = plan.least if isinstance(plan, PlanWire) else {}
    values = " in f16 for webgpu" if plan.dtype is DType.F16 else ""
    return _extents(plan.dimensions, least) + values + in_bytes(plan.precision)


def _extents(dimensions: Mapping[str, int], least: Mapping[str, int]) -> str:
    ranges = {name: f"{extent}..{dimensions[name]}" for name, extent in least.items()}
    return written({**dimensions, **ranges})


def _plan_lines(plan: PlanWire) -> list[str]:
    memory = plan.memory
    ports = [
        f"  {what} {port.name}: {port.dtype} {port.shape}"
        for what, all_ports in (("input", plan.inputs), ("output", plan.outputs))
        for port in all_ports
    ]
    sizes = f"weights {megabytes(memory['weights'])}, activations "
    head = f"plan {_named(plan)}: {plan.calls} calls of {plan.kernels} kernels, {sizes}"
    return [head + megabytes(memory["activations"]), *ports]


def _coverage_row(covered: PlanCoverage, plans: Sequence[PlanWire]) -> tuple[str, ...]:
    named = (plan.least for plan in plans if plan.dimensions == covered.dimensions)
    return (
        covered.device_class,
        _extents(covered.dimensions, next(named, {})) + in_bytes(covered.precision),
        f"{covered.confirmed}/{covered.workloads}",
        f"{covered.confirmed_flops:.0%}",
        expected(covered),
        duration(covered.prepare_ms),
        str(covered.page_loads),
    )


def expected(covered: PlanCoverage) -> str:
    """Milliseconds; with a tilde where they rest on less than all operations."""
    about = "~" if covered.expected_ms is not None and covered.measured < 1 else ""
    return about + duration(covered.expected_ms)


@app.command()
def remove(
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Serve a model no more and remove its files. What was learned of its kernels stays."""
    with reach(state, url) as gateway:
        model = gateway.model(name)
        if not yes:
            note(f"{model.name}, of {model.source}, with {_counted(len(model.plans), 'plan')}")
            typer.confirm("Remove it?", abort=True, err=True)
        gateway.remove_model(name)
    if as_json:
        print_json({"removed": name})
    else:
        out.print(f"removed {name}; pages that hold it keep it for up to a minute")


@app.command()
def types(name: NameArgument, state: StateOption = STATE, url: UrlOption = None) -> None:
    """A declaration file (.d.ts) of a model's inputs and outputs, on standard output."""
    with reach(state, url) as gateway:
        print(declarations(gateway.model(name)), end="")


@app.command()
def check(
    name: NameArgument,
    dim: DimOption = None,
    constant: ConstantOption = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", help="A wasm class; any device's and all that voted, if left out."),
    ] = None,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Run a model's golden inputs here, through the zoo's kernels, and say what differs."""
    ranges, extents = parse_ranges(dim or ())
    _, extents = parse_sums(extents, ranges)
    choices = plan_choices(parse_dimensions(extents), parse_constants(constant or ()))
    wanted = [each.named for each in choices]
    with reach(state, url) as gateway, live_display(notes) as shown:

        def told(line: str) -> None:
            shown(line, None)

        found = list(check_model(gateway, name, wanted, tuple(classes or ()), told))
    if as_json:
        print_json([each.told for each in found])
    else:
        for each in found:
            for line in each.lines:
                out.print(line, markup=False)
    if not all(each.checked.right for each in found):
        raise typer.Exit(1)


def _tell_added(made: Registered, sent: ImportedModel, *, ready: bool) -> None:
    model = made.model
    plans = "; ".join(map(_named, model.plans))
    state = "ready for pages" if ready else "registered"
    out.print(
        f"{model.name} is {state}: {_counted(len(model.plans), 'plan')} ({plans}), "
        f"weights {_weights_told(sent)}, {_counted(made.jobs, 'new tuning job')}",
        markup=False,
    )
    for plan in (*sent.plans, *(sent.int8.plans if sent.int8 else ())):
        for line in _unsettled(plan):
            out.print(line, markup=False)
    if sent.f16 is not None and sent.f16.wide:
        out.print(
            f"in f16 {_counted(len(sent.f16.wide), 'node')} keep f32, {sent.f16.wide[0]} first: "
            "with large inputs they make numbers that no f16 holds",
            markup=False,
        )
    decodes = any(plan.decoder for plan in sent.plans)
    opens = "languageModel" if decodes else "model"
    out.print(
        f"a page runs it by `zoo.{opens}({model.name!r})`; `kernelzoo tune --model {model.name}` "
        "shows how it becomes faster",
        markup=False,
    )


def _unsettled(plan: Plan) -> Iterator[str]:
    """Yields what of a plan's outputs pages cannot check, as rounding alone decides it."""
    for part in plan.golden.outputs:
        entries = part.bytes // DType.F32.size_bytes
        if part.off is not None:
            share = f"{part.off} of {entries} entries of"
            what = f"output {part.name} is" if part.off >= entries else f"{share} {part.name} are"
            yield (
                f"{written(plan.dimensions)}: {what} not compared in pages, as rounding alone "
                "decides them for all inputs that were tried"
            )


def _weights_told(sent: ImportedModel) -> str:
    """Says what pages fetch, and by how much outputs differ from those of f32."""
    told = _fetched(sent.plans)
    if sent.int8 is not None:
        told += f" or in int8 {_fetched(sent.int8.plans)}"
    if sent.f16 is None:
        return told
    if sent.f16.plans[0].decoder:
        return f"{told} (with a cache of f16 {_difference(sent.f16.plans)})"
    return f"{told} or in f16 {_fetched(sent.f16.plans)}"


def _fetched(plans: Sequence[Plan]) -> str:
    told = megabytes(max(plan.file_bytes for plan in plans))
    differ = _difference(plans)
    if not differ:
        return told
    if plans[0].has_f16 or plans[0].has_i8:
        return f"{told} ({differ})"
    plain = max(plan.memory.weights for plan in plans)
    share = max(plan.file_bytes for plan in plans) / plain
    return f"{told} ({share:.0%} of f32; {differ})"


def _difference(plans: Sequence[Plan]) -> str:
    """'' for plans that compute as the file does."""
    errors = [plan.golden.storage_error for plan in plans if plan.golden.storage_error is not None]
    return f"outputs differ by {max(errors):.2g}" if errors else ""


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
