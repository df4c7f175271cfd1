"""Order among numbers of different types, which an apiserver allows (cel-go: CrossTypeNumericComparisons).

cel-cpp compares them when it evaluates; it only has to be told that it may.
"""

from typing import Final

from app.dispatch.cel.functions import Function

_NUMBERS: Final = ("int", "uint", "double")
_OTHERS: Final = ("bool", "string", "bytes", "timestamp", "duration")

OPERATORS: Final = ("_<_", "_<=_", "_>_", "_>=_")
FUNCTIONS: Final = tuple(
    Function(operator, types, "bool", None, member=False)
    for operator in OPERATORS
    for types in (
        *((left, right) for left in _NUMBERS for right in _NUMBERS),
        *((type_, type_) for type_ in _OTHERS),
    )
)
