"""Which passes run. All do, except where a benchmark asks what one of them is worth.

The paper's three and hoisting are those of its ablation (nnJIT section 4.3, Table 5).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSwitches:
    """`vectors`: loops that a schedule vectorises take four lanes at once.

    `offset`: constants move into the immediate of a load or store. `combined`: a load and a splat
    become one instruction. `variable`: accumulators and repeated loads live in wasm locals.
    `hoist`: addresses are pointers stepped by their loops.
    """

    vectors: bool = True
    offset: bool = True
    combined: bool = True
    variable: bool = True
    hoist: bool = True


ALL_PASSES = PassSwitches()
