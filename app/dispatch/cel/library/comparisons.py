"""Comparisons between numbers of different types (cel-go: CrossTypeNumericComparisons).

cel-cpp's type checker rejects them, so all overloads of the operators are declared here.
"""

from typing import Final

from app.dispatch.cel.equality import COMPARISONS
from app.dispatch.cel.functions import Function

_NUMBERS: Final = ("int", "uint", "double")
_OTHERS: Final = ("bool", "string", "bytes", "timestamp", "duration")

OPERATORS: Final = tuple(COMPARISONS)
FUNCTIONS: Final = tuple(
    Function(operator, types, "bool", code, member=False)
    for operator, code in COMPARISONS.items()
    for types in (
        *((left, right) for left in _NUMBERS for right in _NUMBERS),
        *((type_, type_) for type_ in _OTHERS),
    )
)
