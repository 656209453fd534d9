"""`kernelzoo app create|list|origins|rotate|disable`: who may register workloads, too."""

from typing import Annotated

import typer
from pydantic import ValidationError

from cli.gateway_client import reach
from cli.listing import Column, print_json, show_all
from cli.options import STATE, JsonOption, StateOption, UrlOption
from cli.terminal import note
from kernelzoo.errors import InvalidInput
from services.gateway.wire.applications import (
    Application,
    ApplicationRequest,
    NewKey,
    OriginsChange,
    QuotaWire,
)

app = typer.Typer(help="Applications and their keys.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")]
COLUMNS = (
    Column(heading="application"),
    Column(heading="origins"),
    Column(heading="jobs today", rank=1),
    Column(heading="sets", rank=2),
    Column(heading="state"),
)
_USUAL = QuotaWire()


@app.command()
def create(
    name: NameArgument,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="Of pages whose agents measure for it, as in https://www.example."),
    ] = None,
    jobs_per_day: Annotated[int, typer.Option(min=0)] = _USUAL.jobs_per_day,
    sets: Annotated[int, typer.Option(min=0)] = _USUAL.sets,
    workloads_per_set: Annotated[int, typer.Option(min=0)] = _USUAL.workloads_per_set,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Make an application and print its key, once."""
    try:
        request = ApplicationRequest(
            name=name,
            origins=origin or [],
            quota=QuotaWire(
                jobs_per_day=jobs_per_day, sets=sets, workloads_per_set=workloads_per_set
            ),
        )
    except ValidationError as error:
        raise _malformed(error) from error
    with reach(state, url) as gateway:
        _show(gateway.create_application(request), as_json=as_json)


@app.command("list")
def list_applications(
    as_json: JsonOption = False, state: StateOption = STATE, url: UrlOption = None
) -> None:
    """One line for each, with what it has used of its quota."""
    with reach(state, url) as gateway:
        applications = gateway.applications()
    show_all(
        applications,
        COLUMNS,
        _row,
        none="no application yet; `kernelzoo app create NAME`",
        as_json=as_json,
    )


@app.command()
def origins(
    name: NameArgument,
    add: Annotated[
        list[str] | None, typer.Option(help="Let its pages measure, as in https://www.example.")
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(help="Let them no longer.")] = None,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Change the origins whose pages may measure for an application, and print them."""
    try:
        change = OriginsChange(added=add or [], removed=remove or [])
    except ValidationError as error:
        raise _malformed(error) from error
    with reach(state, url) as gateway:
        for origin in gateway.change_origins(name, change):
            print(origin)


@app.command()
def rotate(
    name: NameArgument,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Print a new key; the old one ends at once. A disabled application comes back."""
    with reach(state, url) as gateway:
        _show(gateway.rotate_application(name), as_json=as_json)


@app.command()
def disable(name: NameArgument, state: StateOption = STATE, url: UrlOption = None) -> None:
    """End its key. Its sets and kernels stay and are served."""
    with reach(state, url) as gateway:
        gateway.disable_application(name)
    note(f"{name} is disabled; `kernelzoo app rotate {name}` lets it in again")


def _malformed(error: ValidationError) -> InvalidInput:
    first = error.errors()[0]
    if first["loc"] == ("name",):
        form = "use lower-case letters, digits and hyphens, at most 64"
        return InvalidInput(f"application name {first['input']!r} is malformed; {form}")
    if isinstance(first["input"], str):
        form = "write scheme, host and port as browsers do, as in https://www.shop.example"
        return InvalidInput(f"origin {first['input']!r} is malformed; {form}")
    return InvalidInput(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def _show(made: NewKey, *, as_json: bool) -> None:
    """The key alone on standard output, to be piped to where it is kept."""
    if as_json:
        print_json(made)
        return
    note(f"the key of {made.name}, which nobody can show again:")
    print(made.key)


def _row(each: Application) -> tuple[str, ...]:
    return (
        each.name,
        " ".join(each.origins),
        f"{each.jobs_today} of {each.quota.jobs_per_day}",
        f"{each.sets} of {each.quota.sets}",
        "disabled" if each.disabled else "",
    )
