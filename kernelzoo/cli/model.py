"""`kernelzoo model show|train`: the cost model that orders what devices measure."""

import typer
from rich.table import Table

from kernelzoo.cli.options import STATE, StateOption, UrlOption
from kernelzoo.cli.reach import reach
from kernelzoo.cli.terminal import out
from services.gateway.wire.models import CostModelWire, JudgedWire

app = typer.Typer(help="The cost model.", no_args_is_help=True)


@app.command()
def show(state: StateOption = STATE, url: UrlOption = None) -> None:
    """Every model that was trained, with its figures on devices and shapes it has not seen."""
    with reach(state, url) as gateway:
        models = gateway.models()
    if not models:
        out.print("no model yet; one is trained when enough is measured, or by `model train`")
        return
    out.print(_figures(models))
    for model in models:
        out.print(f"{model.version}: {model.reason}")


@app.command()
def train(state: StateOption = STATE, url: UrlOption = None) -> None:
    """Train one now. It is published if it is no worse than the one before."""
    with reach(state, url) as gateway:
        answer = gateway.train()
    out.print(
        f"training with {answer.measurements} measurements; "
        "`kernelzoo model show` says in a moment how it ended"
    )


def _figures(models: tuple[CostModelWire, ...]) -> Table:
    caption = "regret: time over the best measured; in brackets the order of the lite space"
    table = Table(caption=caption)
    for heading in ("version", "published", "held out", "races", "Spearman", "top 1", "top 5"):
        table.add_column(heading)
    for model in models:
        for name, judged in (
            ("devices", model.evaluation.devices),
            ("shapes", model.evaluation.shapes),
        ):
            if judged is not None:
                published = "yes" if model.published else "no"
                table.add_row(str(model.version), published, name, *_scores(judged))
    return table


def _scores(judged: JudgedWire) -> tuple[str, ...]:
    model, promise = judged.model, judged.promise
    return (
        str(model.races),
        f"{model.correlation:.2f} ({promise.correlation:.2f})",
        f"{model.regret_top1:.1%} ({promise.regret_top1:.1%})",
        f"{model.regret_top5:.1%} ({promise.regret_top5:.1%})",
    )
