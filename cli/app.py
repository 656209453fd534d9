"""The `kernelzoo` command. Errors that are meant for people end it with a sentence and code 1."""

import os
import sys
from typing import Annotated

import typer

from cli import application, cost_model, identities, jobs, zoo
from cli.backup import backup, restore
from cli.compile import compile_workload
from cli.demo.command import demo
from cli.fleet import fleet
from cli.models import command as models
from cli.simulate.command import simulate
from cli.terminal import note
from cli.tune import tune
from cli.up import up
from kernelzoo import __version__
from kernelzoo.errors import KernelZooError

# A shape such as -1x768x768 is refused with the allowed range, not as an unknown option.
_SHAPES = {"ignore_unknown_options": True}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kernelzoo {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Crowd-tuned kernels for deep learning in the browser."""


app.command()(up)
app.command(context_settings=_SHAPES)(tune)
app.command()(fleet)
app.command("compile", context_settings=_SHAPES)(compile_workload)
app.command()(demo)
app.command()(simulate)
app.command()(backup)
app.command()(restore)
app.add_typer(zoo.app, name="zoo")
app.add_typer(jobs.app, name="jobs")
app.add_typer(models.app, name="models")
app.add_typer(cost_model.app, name="cost-model")
app.add_typer(application.app, name="app")
app.add_typer(identities.app, name="identities")


def main() -> None:
    try:
        app()
    except KernelZooError as error:
        note(f"kernelzoo: {error}")
        sys.exit(1)
    except BrokenPipeError:
        # Whoever reads our output, as `head`, has enough of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        note(
            f"kernelzoo: {error.filename}: {error.strerror}; "
            "name another place with --state or --output"
        )
        sys.exit(1)
