"""Decoded JSON, as the engines pass it around.

``JSON`` is ``Any`` on purpose: a recursive alias would put a cast on every index expression of code whose whole
subject is walking documents of unknown shape. What is known about a document is said by a struct instead.
"""

from typing import Any, TypeAlias

JSON: TypeAlias = Any
JSONObject: TypeAlias = dict[str, Any]
