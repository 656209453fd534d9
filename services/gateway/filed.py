"""Counts the ballots that were filed, at any gateway, by who filed them."""

from collections import Counter

MOST = 4096
"""Identities that are counted. Past it all counts begin anew."""

Filed = tuple[int, int]
"""Two that are equal say that nothing was filed between them."""


class FiledBallots:
    """Hears of each ballot while somebody listens."""

    def __init__(self) -> None:
        self._listening = False
        self._begun = 0
        self._counts: Counter[str] = Counter()

    def begin(self) -> None:
        """Begins anew, as what was filed before was not heard of."""
        self._listening = True
        self._begun += 1
        self._counts.clear()

    def end(self) -> None:
        self._listening = False

    def note(self, identity: str) -> None:
        if len(self._counts) >= MOST:
            self.begin()
        self._counts[identity] += 1

    def of(self, identity: str) -> Filed | None:
        """None while nobody listens, so that nobody knows."""
        return (self._begun, self._counts.get(identity, 0)) if self._listening else None
