"""The chart tells each process what it reads, and secrets by reference alone."""

import pytest

from tests.chart.rendering import EXAMPLES, environment, example, render
from tests.environment import SECRETS, missing, needless_secrets, unknown


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_process_is_told_what_it_reads_and_nothing_else(name: str) -> None:
    for process, pod in render(example(name)).pods().items():
        given = environment(pod)
        assert missing(process, given) == set(), process
        assert unknown(process, given) == set(), process
        assert needless_secrets(process, given) == set(), process


@pytest.mark.parametrize("name", EXAMPLES)
def test_secrets_are_named_and_never_written_out(name: str) -> None:
    rendered = render(example(name))
    assert rendered.of("Secret") == {}
    for pod in rendered.pods().values():
        for variable in environment(pod).values():
            if variable["name"] in SECRETS:
                assert variable["valueFrom"].keys() == {"secretKeyRef"}
