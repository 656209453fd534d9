"""Messages to workers: in which order they are taken."""

from kernelzoo import jobs


def test_first_batches_of_large_shares_come_before_later_ones_of_the_same() -> None:
    def places(share: float) -> list[int]:
        found = jobs.compile_batches([str(number) for number in range(20)], 4, share=share)
        assert [len(message.arguments[0]) for message in found] == [4] * 5  # type: ignore[arg-type]
        return [message.place for message in found]

    assert places(1.0) == [1, 2, 3, 4, 5]
    assert places(0.25) == [3, 4, 5, 6, 7]
    assert places(0.006) == [8, 9, 9, 9, 9]
    assert places(0.0) == [9] * 5


def test_what_a_page_cannot_run_without_comes_before_all_candidates() -> None:
    (batch,) = jobs.compile_batches(["a"], 4, share=jobs.FIRST_CANDIDATES)
    others = (batch, jobs.order_spaces(), jobs.train_model())
    needed = (jobs.plan_space(1), *jobs.compile_defaults([str(number) for number in range(9)]))
    assert max(each.place for each in needed) < min(each.place for each in others)
    assert [len(each.arguments[0]) for each in needed[1:]] == [4, 4, 1]  # type: ignore[arg-type]
