"""The operators: one record for each, which everything else that knows an operator follows."""

from kernelzoo.domain.operators.byte_layers import BYTE_LAYERS
from kernelzoo.domain.operators.contraction import CONTRACTIONS
from kernelzoo.domain.operators.convolution import CONVOLUTIONS
from kernelzoo.domain.operators.elementwise import ELEMENTWISE
from kernelzoo.domain.operators.epilogues import EPILOGUES, EpilogueKind
from kernelzoo.domain.operators.integer_products import INTEGER_PRODUCTS
from kernelzoo.domain.operators.operator import Axes, Family, Operator
from kernelzoo.domain.operators.quantisation import QUANTISATIONS
from kernelzoo.domain.operators.quantised import QUANTISED
from kernelzoo.domain.operators.reduction import REDUCTIONS

__all__ = ["EPILOGUES", "OPERATORS", "Axes", "EpilogueKind", "Family", "Operator"]

OPERATORS = {
    operator.name: operator
    for operator in (
        *CONTRACTIONS,
        *CONVOLUTIONS,
        *REDUCTIONS,
        *ELEMENTWISE,
        *QUANTISED,
        *INTEGER_PRODUCTS,
        *QUANTISATIONS,
        *BYTE_LAYERS,
    )
}
