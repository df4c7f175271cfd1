"""The functions of expressions, by subject.

They are CEL's standard functions, cel-go's extensions (package ext), and Kubernetes' functions
(k8s.io/apiserver/pkg/cel/library).
"""

from typing import Final

from app.dispatch.cel.functions import Function
from app.dispatch.cel.library.addresses import FUNCTIONS as ADDRESSES
from app.dispatch.cel.library.authorizer import FUNCTIONS as AUTHORIZER
from app.dispatch.cel.library.conversions import FUNCTIONS as CONVERSIONS
from app.dispatch.cel.library.extensions import FUNCTIONS as EXTENSIONS
from app.dispatch.cel.library.formats import FUNCTIONS as FORMATS
from app.dispatch.cel.library.lists import FUNCTIONS as LISTS
from app.dispatch.cel.library.quantities import FUNCTIONS as QUANTITIES
from app.dispatch.cel.library.regexes import FUNCTIONS as REGEXES
from app.dispatch.cel.library.semver import FUNCTIONS as SEMVER
from app.dispatch.cel.library.standard import FUNCTIONS as STANDARD
from app.dispatch.cel.library.strings import FUNCTIONS as STRINGS
from app.dispatch.cel.library.urls import FUNCTIONS as URLS

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
