"""The functions of expressions, by subject.

They are CEL's standard functions, cel-go's extensions (package ext), and Kubernetes' functions
(k8s.io/apiserver/pkg/cel/library).
"""

from typing import Final

from fleethook.dispatch.cel.functions import Function
from fleethook.dispatch.cel.library.addresses import FUNCTIONS as ADDRESSES
from fleethook.dispatch.cel.library.authorizer import FUNCTIONS as AUTHORIZER
from fleethook.dispatch.cel.library.conversions import FUNCTIONS as CONVERSIONS
from fleethook.dispatch.cel.library.extensions import FUNCTIONS as EXTENSIONS
from fleethook.dispatch.cel.library.formats import FUNCTIONS as FORMATS
from fleethook.dispatch.cel.library.lists import FUNCTIONS as LISTS
from fleethook.dispatch.cel.library.quantities import FUNCTIONS as QUANTITIES
from fleethook.dispatch.cel.library.regexes import FUNCTIONS as REGEXES
from fleethook.dispatch.cel.library.semver import FUNCTIONS as SEMVER
from fleethook.dispatch.cel.library.standard import FUNCTIONS as STANDARD
from fleethook.dispatch.cel.library.strings import FUNCTIONS as STRINGS
from fleethook.dispatch.cel.library.urls import FUNCTIONS as URLS

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
