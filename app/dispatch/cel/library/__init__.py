"""The functions of expressions, by subject.

They are CEL's standard functions, cel-go's extensions (package ext), and Kubernetes' functions
(k8s.io/apiserver/pkg/cel/library).
"""

from typing import Final

from app.dispatch.cel.functions import Function
from app.dispatch.cel.library.addresses import FUNCTIONS as ADDRESSES
from app.dispatch.cel.library.authorizer import FUNCTIONS as AUTHORIZER
from app.dispatch.cel.library.comparisons import FUNCTIONS as COMPARISONS
from app.dispatch.cel.library.extensions import FUNCTIONS as EXTENSIONS
from app.dispatch.cel.library.formats import FUNCTIONS as FORMATS
from app.dispatch.cel.library.lists import FUNCTIONS as LISTS
from app.dispatch.cel.library.quantities import FUNCTIONS as QUANTITIES
from app.dispatch.cel.library.regexes import FUNCTIONS as REGEXES
from app.dispatch.cel.library.semver import FUNCTIONS as SEMVER
from app.dispatch.cel.library.standard import FUNCTIONS as STANDARD
from app.dispatch.cel.library.standard import TO_STRING
from app.dispatch.cel.library.strings import FUNCTIONS as STRINGS
from app.dispatch.cel.library.urls import FUNCTIONS as URLS

DECLARED: Final[tuple[Function, ...]] = (
    *COMPARISONS,
    *TO_STRING,
    *ADDRESSES,
    *AUTHORIZER,
    *FORMATS,
    *LISTS,
    *QUANTITIES,
    *REGEXES,
    *STRINGS,
    *URLS,
    *SEMVER,
)
"""The functions that the type checker does not know by itself."""

FUNCTIONS: Final[tuple[Function, ...]] = (*DECLARED, *EXTENSIONS, *STANDARD)
"""All functions that expressions can call."""
