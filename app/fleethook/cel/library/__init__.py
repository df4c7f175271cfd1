"""The functions of expressions, by subject.

They are CEL's standard functions, cel-go's extensions (package ext), and Kubernetes' functions
(k8s.io/apiserver/pkg/cel/library).
"""

from typing import Final

from fleethook.cel.library.lists_and_optionals import EXTENSION_FUNCTIONS, LIST_FUNCTIONS
from fleethook.cel.library.network_and_formats import ADDRESS_FUNCTIONS, FORMAT_FUNCTIONS, URL_FUNCTIONS
from fleethook.cel.library.quantities_and_semver import QUANTITY_FUNCTIONS, SEMVER_FUNCTIONS
from fleethook.cel.library.standard import CONVERSION_FUNCTIONS, STANDARD_FUNCTIONS
from fleethook.cel.library.strings_and_regex import REGEX_FUNCTIONS, STRING_FUNCTIONS
from fleethook.cel.values.values_and_overloads import Function

FUNCTIONS: Final[tuple[Function, ...]] = (
    *STANDARD_FUNCTIONS,
    *CONVERSION_FUNCTIONS,
    *ADDRESS_FUNCTIONS,
    *EXTENSION_FUNCTIONS,
    *FORMAT_FUNCTIONS,
    *LIST_FUNCTIONS,
    *QUANTITY_FUNCTIONS,
    *REGEX_FUNCTIONS,
    *STRING_FUNCTIONS,
    *URL_FUNCTIONS,
    *SEMVER_FUNCTIONS,
)
"""All functions that expressions can call, without operators."""
