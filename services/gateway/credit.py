"""How much a stranger is lent, from how its network and itself answered what they were lent before.

Whoever is lent a kernel keeps it from others for a while. To take everything and answer nothing
costs nothing but identities, of which a network has as many as it likes within days.
"""

from kernelzoo.store.leases import ConductRow


def credit(found: ConductRow, limit: int, per_network: int) -> int:
    """Candidates of its next lease, at most `limit`; 0 while its network has enough of them.

    A page that is closed leaves one lease unanswered, so that the next one is small and, once it is
    answered, the one after it whole. A network of which more leases are left than are answered has
    fewer at a time, down to one.
    """
    at_once = max(1, per_network - max(0, found.neglected - found.answered))
    if found.open >= at_once:
        return 0
    return max(1, limit - found.unreported)
