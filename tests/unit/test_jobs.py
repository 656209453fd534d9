"""Messages to workers: in which order they are taken."""

from kernelzoo import jobs


def test_first_batches_of_large_shares_come_before_later_ones_of_the_same() -> None:
    def places(share: float) -> list[int]:
        found = jobs.compile_batches([str(number) for number in range(20)], 4, share=share)
        assert [len(message.arguments[0]) for message in found] == [4] * 5  # type: ignore[arg-type]
        return [message.place for message in found]

    assert places(1.0) == [0, 1, 2, 3, 4]
    assert places(0.25) == [2, 3, 4, 5, 6]
    assert places(0.006) == [7, 8, 9, 9, 9]
    assert places(0.0) == [9] * 5
