"""Tables know each target."""

from collections.abc import Collection

import pytest

from cli.compile import SUFFIX
from kernelzoo.domain.target import DTYPES, FEATURES, MEASURED, UNIT, TargetKind, parse_measured
from kernelzoo.errors import InvalidInput
from services.aggregator.envelope import CEILING_GFLOPS
from services.gateway.routes.zoo import MEDIA_TYPES
from services.gateway.wire.sessions import PROBES
from services.tuner.microbench.typescript import WRITERS
from services.tuner.schedules.registry import FAMILIES
from workers.modelling import PROBE_LEVELS

TABLES: dict[str, Collection[TargetKind]] = {
    "features": FEATURES,
    "dtypes": DTYPES,
    "rounding": UNIT,
    "schedule families": {family.target for family in FAMILIES},
    "suffix of an artifact": SUFFIX,
    "media type of an artifact": MEDIA_TYPES,
}
OF_MEASURING: dict[str, Collection[TargetKind]] = {
    "rate that no device exceeds": CEILING_GFLOPS,
    "probe on the wire": PROBES,
    "probe of the cost model": PROBE_LEVELS,
    "writer of the microbenchmarks": WRITERS,
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_by_target_has_every_target(table: str) -> None:
    assert set(TABLES[table]) == set(TargetKind)


@pytest.mark.parametrize("table", OF_MEASURING)
def test_a_table_of_measuring_has_every_target_that_agents_measure(table: str) -> None:
    assert set(OF_MEASURING[table]) == set(MEASURED)


def test_nobody_is_asked_to_measure_javascript() -> None:
    assert [parse_measured(each) for each in MEASURED] == [*MEASURED]
    with pytest.raises(InvalidInput, match="javascript is not measured"):
        parse_measured("javascript")
