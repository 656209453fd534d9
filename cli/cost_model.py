"""`kernelzoo cost-model show|train`: the cost model that orders what devices measure."""

import typer

from cli.gateway_client import reach
from cli.listing import Column, Listing, print_json
from cli.options import STATE, JsonOption, StateOption, UrlOption
from cli.terminal import note, out
from services.gateway.wire.cost_models import CostModelWire, JudgedWire

app = typer.Typer(help="The cost model.", no_args_is_help=True)


@app.command()
def show(as_json: JsonOption = False, state: StateOption = STATE, url: UrlOption = None) -> None:
    """Every model that was trained, with its figures on devices and shapes it has not seen."""
    with reach(state, url) as gateway:
        models = gateway.cost_models()
    if as_json:
        print_json(models)
        return
    if not models:
        note("no model yet; one is trained when enough is measured, or by `cost-model train`")
        return
    _figures(models).show()
    for model in models:
        out.print(f"{model.version}: {model.reason}")


@app.command()
def train(state: StateOption = STATE, url: UrlOption = None) -> None:
    """Train one now. It is published if it is no worse than the one before."""
    with reach(state, url) as gateway:
        answer = gateway.train_cost_model()
    out.print(
        f"training with {answer.measurements} measurements; "
        "`kernelzoo cost-model show` says in a moment how it ended"
    )


COLUMNS = (
    Column(heading="version"),
    Column(heading="published", rank=2),
    Column(heading="held out"),
    Column(heading="races", rank=3, right=True),
    Column(heading="Spearman", rank=1),
    Column(heading="top 1"),
    Column(heading="top 5"),
)


def _figures(models: tuple[CostModelWire, ...]) -> Listing:
    rows = (
        (str(model.version), "yes" if model.published else "no", name, *_scores(judged))
        for model in models
        for name, judged in (
            ("devices", model.evaluation.devices),
            ("shapes", model.evaluation.shapes),
        )
        if judged is not None
    )
    return Listing(
        columns=COLUMNS,
        rows=tuple(rows),
        caption="regret: time over the best measured; in brackets the order of the lite space",
    )


def _scores(judged: JudgedWire) -> tuple[str, ...]:
    model, promise = judged.model, judged.promise
    return (
        str(model.races),
        f"{model.correlation:.2f} ({promise.correlation:.2f})",
        f"{model.regret_top1:.1%} ({promise.regret_top1:.1%})",
        f"{model.regret_top5:.1%} ({promise.regret_top5:.1%})",
    )
