"""What the front end's variables and buffers are called in the loop IR."""

from collections.abc import Hashable

from services.tuner.frontend.clip import Access, access, flat_size
from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.nodes import Buffer, Element, Scope

Shape = tuple[int, ...]


class Symbols:
    """Grows during one visit. Keys are the front end's own objects; names are unique."""

    def __init__(self) -> None:
        self.ranges: dict[str, Range] = {}
        self._variables: dict[Hashable, str] = {}
        self._buffers: dict[Hashable, tuple[Buffer, Shape, Shape]] = {}
        self._taken: dict[str, int] = {}

    def bind(self, key: Hashable, name: str, extent: int) -> str:
        """A new loop variable that runs over 0 … extent-1."""
        var = self._variables[key] = self._fresh(name)
        self.ranges[var] = (0, extent - 1)
        return var

    def variable(self, key: Hashable) -> Affine:
        return Affine.variable(self._variables[key])

    def declare(
        self, key: Hashable, name: str, scope: Scope, *, shape: Shape, stated: Shape
    ) -> Buffer:
        """A buffer of `shape`, which the program was `stated` on as if it were larger."""
        buffer = Buffer(
            name=self._fresh(name), scope=scope, element=Element.F32, size=flat_size(shape)
        )
        self._buffers[key] = (buffer, shape, stated)
        return buffer

    def access(self, key: Hashable, at: tuple[Affine, ...]) -> Access:
        buffer, shape, stated = self._buffers[key]
        return access(buffer, at, shape, stated)

    def _fresh(self, name: str) -> str:
        """The front end repeats names, each for another thing."""
        seen = self._taken.get(name, 0)
        self._taken[name] = seen + 1
        return f"{name}.{seen}" if seen else name
