"""Measures how well the cost model foretells devices and shapes that it has not seen, by real
measurements.

    python -m bench.crowd.cost_model [--recipes] [--workloads conv2d] [--json FILE]

The data set is that of fixtures/recorded: engines and flags of three machines. Each device in turn,
each machine with all of its devices, and each fifth of the shapes, is kept from training and then
foretold. `--recipes` compares ways of
training; the first is the one that is used. `--workloads` scores those alone whose keys begin so;
the model is trained on all.
"""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from fixtures.recorded import dataset
from fixtures.recorded.dataset import Dataset
from services.tuner.cost_model.dataset import Race, fingerprint, races
from services.tuner.cost_model.evaluation import Score, score
from services.tuner.cost_model.model import CostModel, Hyperparameters, train

RECIPES = (
    Hyperparameters(),
    Hyperparameters(depth=4),
    Hyperparameters(depth=8),
    Hyperparameters(objective="rank:pairwise", rounds=300, least_weight=1),
)
REGRET = 0.10
FOLDS = 5

Side = Callable[[Race], str]


def sides(recorded: Dataset) -> Mapping[str, Side]:
    """Gives what is held out together with a race, by the name of the division."""
    machines = {each.to_device().hardware: each.machine for each in recorded.devices}
    return {
        "devices": lambda race: race.device.hardware,
        "machines": lambda race: machines[race.device.hardware],
        "shapes": lambda race: str(int(fingerprint(race.workload_key), 16) % FOLDS),
    }


def foretold(
    every: Sequence[Race],
    side: Side,
    recipe: Hyperparameters,
    most: int | None,
    workloads: str = "",
) -> Score:
    """Over all parts, or so many, each foretold by a model that has not seen it. Races are scored
    whose workload begins with `workloads`."""
    scored = chosen(every, workloads)
    parts = []
    for held_out in list(dict.fromkeys(map(side, scored)))[:most]:
        model = train([race for race in every if side(race) != held_out], recipe)
        part = [race for race in scored if side(race) == held_out]
        parts.append(score(part, costs_by(model)))
    return mean(parts)


def chosen(every: Sequence[Race], workloads: str) -> list[Race]:
    return [race for race in every if race.workload_key.startswith(workloads)]


def costs_by(model: CostModel) -> Callable[[Race], Sequence[float]]:
    return lambda race: model.costs([each.candidate for each in race.observations], race.device)


def mean(parts: Sequence[Score]) -> Score:
    """By races."""
    count = sum(part.races for part in parts)

    def weighted(value: Callable[[Score], float]) -> float:
        return sum(part.races * value(part) for part in parts) / count

    return Score(
        races=count,
        correlation=weighted(lambda part: part.correlation),
        regret_top1=weighted(lambda part: part.regret_top1),
        regret_top5=weighted(lambda part: part.regret_top5),
    )


def row(order: str, held_out: str, found: Score) -> dict[str, Cell]:
    return {
        "order": order,
        "held out": held_out,
        "races": found.races,
        "Spearman": round(found.correlation, 3),
        "top 1 regret": round(found.regret_top1, 3),
        "top 5 regret": round(found.regret_top5, 3),
    }


def anyone(race: Race) -> float:
    """Regret of a candidate taken blindly."""
    times = [each.relative_time for each in race.observations]
    return fmean(times) / min(times) - 1


def measure(options: Namespace) -> Report:
    recorded = dataset.read()
    every = races(recorded.observations())
    scored = chosen(every, options.workloads)
    promise = score(scored, lambda race: range(len(race.observations)))
    rows, claims = [row("lite space", "–", promise)], []
    for recipe in RECIPES if options.recipes else RECIPES[:1]:
        for name, side in sides(recorded).items():
            found = foretold(every, side, recipe, options.parts, options.workloads)
            rows.append(row(f"{recipe.objective} {recipe.depth}", name, found))
            if recipe == RECIPES[0]:
                claims += _claims(name, found, promise)
    blind = fmean(anyone(race) for race in scored)
    return Report(
        name="cost model",
        machine=machine(
            recorded_on=" and ".join(dict.fromkeys(each.machine for each in recorded.devices)),
            workloads=options.workloads,
            blind_regret=round(blind, 3),
        ),
        rows=rows,
        claims=claims,
    )


def _claims(name: str, found: Score, promise: Score) -> list[Claim]:
    unseen = f"{name} not seen"
    return [
        Claim.at_most(f"{unseen}: regret of the first", found.regret_top1, "", REGRET),
        Claim.at_most(f"{unseen}: regret of the first five", found.regret_top5, "", REGRET),
        Claim.at_most(
            f"{unseen}: regret of the first over that of the lite space",
            found.regret_top1 / promise.regret_top1,
            "",
            1,
        ),
    ]


if __name__ == "__main__":
    options = parser(__doc__ or "")
    options.add_argument("--recipes", action="store_true", help="compare ways of training")
    options.add_argument("--workloads", default="", help="score races of these alone, as conv2d")
    options.add_argument(
        "--parts", type=int, help="hold out that many devices, machines and folds of shapes"
    )
    run(options, measure, tiny=("--parts", "1"))
