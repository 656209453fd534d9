"""A program whose stages are made step by step: what it may state, and what it takes."""

import pytest

from kernelzoo.domain.operators.figures import stage_bytes, work
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.operators.recurrence import is_recurrent, step_count, step_product
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput

TEXT = """
x: f32[9, 4]
r: f32[3, 4]
s0[t: 9, n: 4] = sum over k: 3 of (s1[t - 1, k] if 0 < t else 0.0) * r[k, n]
s1[t: 9, j: 3] = tanh(x[t, j + 1] + s0[t, j])
""".strip()


def test_a_recurrence_is_read_back_from_its_text() -> None:
    program = parsed(TEXT)
    assert str(program) == TEXT
    assert is_recurrent(program)
    assert step_count(program) == 9
    workload = Workload.of_program("rnn", program)
    assert str(workload.program) == str(parsed(str(workload.program)))


def test_a_recurrence_takes_the_terms_of_all_steps_and_the_memory_of_one() -> None:
    program = parsed(TEXT)
    assert work(program) == 9 * (4 * 3 + 3)
    assert stage_bytes(program) == 4 * 4


def test_the_product_of_a_step_is_told_by_its_axes() -> None:
    program = parsed(TEXT)
    found = step_product(program, program.stages[0])
    assert found is not None
    assert (found.weights, found.batch, found.m, found.k.name) == ("r", (), (), "k")
    assert step_product(program, program.stages[1]) is None


def test_a_program_that_reads_earlier_stages_alone_is_none() -> None:
    assert not is_recurrent(parsed("a: f32[5]\ns0[i: 5] = a[i] + 1.0\ns1[i: 5] = s0[i] * 2.0"))


AT_OWN_STEP = "read an earlier stage at i, or any at i - 1 where 0 < i"


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ("c[i: 5] = c[i] + a[i]", AT_OWN_STEP),
        ("c[i: 5] = c[i - 1] + a[i]", AT_OWN_STEP),
        ("c[i: 5] = (a[i] if 0 < i else c[i - 1])", AT_OWN_STEP),
        ("c[i: 5] = (c[i - 1] if 1 < i else a[i])", AT_OWN_STEP),
        ("c[i: 5] = (c[i - 2] if 0 < i else a[i])", AT_OWN_STEP),
        ("b[i: 5] = c[i]\nc[i: 5] = b[i] + a[i]", AT_OWN_STEP),
        ("c[i: 5] = (c[i - 1] if 0 < i else a[i])\nd[j: 3] = c[4]", "the same first axis"),
        ("c[i: 5] = (c[i - 1] if 0 < i else a[i])\na := c", "a recurrence updates no input"),
        ("c[i: 5, j: 2] = (c[i - 1] if 0 < i else a[i])", "has 2 axes and is read at 1"),
        ("c[i: 5]: i32 = (c[i - 1] if 0 < i else a[i])", "of i32 and f32"),
        ("c[i: 5] = (d[i - 1] if 0 < i else a[i])", "no input and no earlier stage"),
    ],
)
def test_what_cannot_be_made_step_by_step_is_refused(stages: str, sentence: str) -> None:
    with pytest.raises(InvalidInput) as told:
        parsed(f"a: f32[5]\n{stages}")
    assert sentence in str(told.value)


def test_a_recurrence_that_nobody_could_check_is_refused() -> None:
    text = TEXT.replace("[9", "[9000").replace("t: 9", "t: 9000")
    text = text.replace("f32[3, 4]", "f32[1024, 1024]").replace("n: 4", "n: 1024")
    text = text.replace("k: 3", "k: 1024").replace("j: 3", "j: 1024").replace(", 4]", ", 1025]")
    with pytest.raises(InvalidInput, match="an entry of the output takes 9446400000 terms"):
        Workload.of_program("rnn", parsed(text))
