"""A finding about an overrider or its subject. All entry points report the same findings."""

from typing import Literal, NamedTuple

from app.model.admission import StatusCause
from app.overrider.lint_codes import ERRORS

Level = Literal["error", "warning"]


class Finding(NamedTuple):
    """A mistake, or a probable mistake."""

    code: str
    """One of `ERRORS` and `WARNINGS` in `app.overrider.lint_codes`."""
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
