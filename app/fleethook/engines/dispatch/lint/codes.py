"""The codes of lint findings about webhooks, and their levels; ``codes.txt`` lists them.

`fleethook.engines.overrider.rules.finding` has those of overriders.
"""

from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

Level = Literal["error", "warning"]

_ROWS: Final = [
    line.split(maxsplit=2) for line in Path(__file__).with_name("codes.txt").read_text(encoding="utf-8").splitlines()
]
"""Code, level and meaning, one in a line."""
CODES: Final[dict[str, Level]] = {code: "error" if level == "error" else "warning" for code, level, _ in _ROWS}
"""The level of each code: an error cannot work as written, a warning may be intended."""
MEANINGS: Final = {code: meaning for code, _, meaning in _ROWS}
"""The meaning of each code, for the documentation and the console."""


class Issue(NamedTuple):
    """One issue, with its remedy."""

    code: str
    text: str


class WebhookFinding(msgspec.Struct, frozen=True):
    """An issue, and its place."""

    level: Level
    code: str
    cluster: str
    kind: str
    """The kind of the object: one of the two kinds of configurations, or APIBinding."""
    configuration: str
    """The name of the object."""
    webhook: str
    """The name of the webhook, ``""`` for an issue of the object."""
    text: str
    place: str = ""
    """File and line, ``""`` if unknown."""
