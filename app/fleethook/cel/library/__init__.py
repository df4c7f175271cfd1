"""The functions of expressions, by subject.

They are CEL's standard functions, cel-go's extensions (package ext), and Kubernetes' functions
(k8s.io/apiserver/pkg/cel/library).
"""

from typing import Final

from fleethook.cel.functions import Function
from fleethook.cel.library.addresses import FUNCTIONS as ADDRESSES
from fleethook.cel.library.authorizer import FUNCTIONS as AUTHORIZER
from fleethook.cel.library.conversions import FUNCTIONS as CONVERSIONS
from fleethook.cel.library.extensions import FUNCTIONS as EXTENSIONS
from fleethook.cel.library.formats import FUNCTIONS as FORMATS
from fleethook.cel.library.lists import FUNCTIONS as LISTS
from fleethook.cel.library.quantities import FUNCTIONS as QUANTITIES
from fleethook.cel.library.regexes import FUNCTIONS as REGEXES
from fleethook.cel.library.semver import FUNCTIONS as SEMVER
from fleethook.cel.library.standard import FUNCTIONS as STANDARD
from fleethook.cel.library.strings import FUNCTIONS as STRINGS
from fleethook.cel.library.urls import FUNCTIONS as URLS

FUNCTIONS: Final[tuple[Function, ...]] = (
    *STANDARD,
    *CONVERSIONS,
    *ADDRESSES,
    *AUTHORIZER,
    *EXTENSIONS,
    *FORMATS,
    *LISTS,
    *QUANTITIES,
    *REGEXES,
    *STRINGS,
    *URLS,
    *SEMVER,
)
"""All functions that expressions can call, but operators."""
