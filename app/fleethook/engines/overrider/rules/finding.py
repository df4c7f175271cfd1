"""A finding about an overrider or its subject, the same one at all entry points.

``finding_levels.txt`` has their codes, and decides which of them are errors.
"""

from pathlib import Path
from typing import Final, Literal, NamedTuple

from fleethook.model.admission import StatusCause

_ROWS: Final = [
    line.split(maxsplit=2)
    for line in Path(__file__).with_name("finding_levels.txt").read_text(encoding="utf-8").splitlines()
]
"""Code, reason of the ``metav1.StatusCause`` (``-`` for a warning) and meaning, one in a line."""
_IN_FILES: Final = "-/error-in-files"
"""The reason of a warning that is an error in files that have the subjects."""
ERRORS: Final = {code: reason for code, reason, _ in _ROWS if not reason.startswith("-")}
"""Codes of errors, with the reason of the ``metav1.StatusCause``."""
ERRORS_IN_FILES: Final = {*ERRORS, *(code for code, reason, _ in _ROWS if reason == _IN_FILES)}
"""Codes of errors in files that have the subjects."""
MEANINGS: Final = {code: meaning for code, _, meaning in _ROWS}
"""The meaning of each code."""


Level = Literal["error", "warning"]


class Finding(NamedTuple):
    """A mistake, or a probable mistake."""

    code: str
    """One of `MEANINGS` in `fleethook.engines.overrider.rules.finding`."""
    field: str
    """The path of the member, such as ``entries[0].patches[1].path``; ``""`` for the object itself."""
    message: str
    """The mistake and its remedy, without the path."""

    @property
    def level(self) -> Level:
        """Admission refuses an overrider with an error, and admits and reports one with a warning."""
        return "error" if self.code in ERRORS else "warning"

    @property
    def text(self) -> str:
        """The path with the message."""
        return f"{self.field}: {self.message}" if self.field else self.message

    def cause(self) -> StatusCause:
        """Return the finding as a cause of a refusal."""
        return StatusCause(self.field, self.message, ERRORS.get(self.code, "FieldValueInvalid"))
