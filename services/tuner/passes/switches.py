"""Which of the paper's passes run. All do, except in the ablation (nnJIT section 4.3, Table 5)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSwitches:
    """`offset`: constants move into the immediate of a load or store.

    `combined`: a load and a splat become one instruction. `variable`: accumulators and repeated
    loads live in wasm locals. `hoist`: addresses are pointers stepped by their loops.
    """

    offset: bool = True
    combined: bool = True
    variable: bool = True
    hoist: bool = True


ALL_PASSES = PassSwitches()
