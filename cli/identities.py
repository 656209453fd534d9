"""`kernelzoo identities erase`: all that is known of one browser profile."""

import json
from base64 import urlsafe_b64decode
from typing import Annotated
from uuid import UUID

import typer

from cli.gateway_client import reach
from cli.options import STATE, StateOption, UrlOption
from cli.terminal import note, out
from kernelzoo.errors import InvalidInput
from services.gateway.wire.identities import Held

app = typer.Typer(help="Identities of agents: one for each browser profile.", no_args_is_help=True)


@app.callback()
def identities() -> None:
    """Identities of agents: one for each browser profile."""


@app.command()
def erase(
    identity: Annotated[
        str, typer.Argument(help="Its number, or the token that the agent page keeps.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was erased as JSON.")] = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Erase an identity: its sessions, leases, measurements and ballots.

    Entries of the zoo that it voted for stay, with the number of ballots and median times, which
    are counted again without it; so do counts by device, page loads and the cost model. None of
    them names an identity.
    """
    number = number_of(identity)
    with reach(state, url) as gateway:
        held = gateway.identity(number)
        if not yes:
            note(f"erased for good: {_told(held)} of identity {number}")
            note(_stays(held))
            typer.confirm("Erase it?", abort=True, err=True)
        erased = gateway.erase_identity(number)
    if as_json:
        print(json.dumps({"identity": str(number), "erased": erased.model_dump()}))
    else:
        out.print(f"erased {_told(erased)} of identity {number}")
        out.print(_stays(erased))


def number_of(text: str) -> UUID:
    """The identity's number, from its number or token. Raises InvalidInput for neither."""
    try:
        if text.count(".") != 2:
            return UUID(text)
        claims = text.split(".")[1]
        return UUID(json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{text[:60]!r} is neither the number of an identity, as in "
            "1b4e28ba-2fa1-41d2-883f-0016d3cca427, nor the token of one; the agent page shows its "
            'number under "Stop and forget me"'
        ) from error


def _told(held: Held) -> str:
    return (
        f"{held.sessions} sessions, {held.leases} leases, {held.measurements} measurements and "
        f"{held.ballots} ballots"
    )


def _stays(held: Held) -> str:
    return (
        f"{held.entries} entries of the zoo that it voted for stay, with counts and medians that "
        "name nobody"
    )
