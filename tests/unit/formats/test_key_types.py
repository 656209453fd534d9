"""The client's types of workload keys are those of the operator table."""

from pathlib import Path

from kernelzoo.formats.key_types import typescript

CLIENT = Path(__file__).parents[3] / "client" / "src" / "wire" / "operators.ts"


def test_the_clients_types_of_keys_are_generated_from_the_operator_table() -> None:
    assert CLIENT.read_text() == typescript(), "run `make generate`"
