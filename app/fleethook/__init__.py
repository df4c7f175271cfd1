"""fleethook: admission and review webhooks for a fleet of Kubernetes clusters.

The supported Python API, typed and with semantic versioning, is described in docs/python.md:

- `fleethook.admission`: admission rules in Python for ``fleethook serve --rules``.
- `fleethook.interpret`: interpreters in Python for ``fleethook serve --interpreters``.
- `fleethook.patch`: JSON Patch in two dialects, JSON merge patch, strategic merge patch, diff.
- `fleethook.model`: the API types of reviews, OpenYurt and Karmada.

In these packages, ``__all__`` lists the supported names. All other names may change without notice.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleethook import admission, interpret, model, patch

__all__ = ["__version__", "admission", "interpret", "model", "patch"]

__version__ = "0.2.0"

if not TYPE_CHECKING:
    # The program imports this package first, and most commands need only some modules of the API.
    def __getattr__(name):  # noqa: ANN001, ANN202 - type checkers see the imports above
        if name in __all__:
            return importlib.import_module(f"fleethook.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
