"""Blocks of activations never meet while both are needed, and little room is lost."""

from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.operators.expressions import largest
from services.tuner.graph.memory import MemoryBlock, addresses_of, least_bytes, placed
from tests.unit.graph.graphs import Built

BLOCKS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 30), st.integers(0, 12)), max_size=40
).map(
    lambda rows: [
        MemoryBlock(name=str(n), size_bytes=64 * size, first=first, last=first + length)
        for n, (size, first, length) in enumerate(rows)
    ]
)


@given(blocks=BLOCKS)
def test_no_two_blocks_that_are_needed_at_a_time_overlap(blocks: list[MemoryBlock]) -> None:
    addresses = addresses_of(blocks)
    for n, one in enumerate(blocks):
        assert addresses[one.name] % 64 == 0
        for other in blocks[:n]:
            apart = (
                addresses[one.name] + one.size_bytes <= addresses[other.name]
                or addresses[other.name] + other.size_bytes <= addresses[one.name]
            )
            assert apart or not one.meets(other)


def test_blocks_of_a_chain_take_what_two_of_them_take() -> None:
    chain = [MemoryBlock(name=str(n), size_bytes=640, first=n, last=n + 1) for n in range(50)]
    ends = [address + 640 for address in addresses_of(chain).values()]
    assert max(ends) == least_bytes(chain) == 1280


def test_an_entry_is_written_where_the_entry_that_it_is_made_of_was_read_last() -> None:
    g = Built()
    x = g.feed(8, 16)
    kept = g.entrywise(lambda a: largest(a, 0.0), x)
    seen = g.view(kept, 128)
    dies = g.entrywise(lambda a: a * 2.0, seen)
    transposed = g.transpose(g.view(dies, 8, 16), 1, 0)
    graph = g.graph(transposed, g.entrywise(lambda a, b: a + b, kept, kept))
    addresses = placed(graph).addresses
    assert addresses[kept] == addresses[x], "the input is read for the last time"
    assert addresses[seen] == addresses[kept]
    assert addresses[dies] != addresses[kept], "the second output still needs it"
    assert addresses[transposed] != addresses[dies], "a transpose reads other places than it writes"
    g = Built()
    short = g.graph(g.entrywise(lambda a: largest(a, 0.0), g.feed(8, 16)))
    assert (placed(short).size_bytes, placed(short, in_place=False).size_bytes) == (512, 1024)
