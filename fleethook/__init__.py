"""The supported Python API of fleethook, typed. See docs/python.md.

- `fleethook.interpret`: interpreters in Python for ``fleethook serve --interpreters``.
- `fleethook.patch`: JSON Patch in two dialects, JSON merge patch, strategic merge patch, diff.
- `fleethook.model`: the API types of reviews, OpenYurt and Karmada.

These names follow semantic versioning. The package `app` is the implementation; its names change without notice.
"""

from app import __version__
from fleethook import interpret, model, patch

__all__ = ["__version__", "interpret", "model", "patch"]
