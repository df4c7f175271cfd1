"""One finding about an overrider or its subject, as every entry point reports it."""

from typing import Final, Literal, NamedTuple

from app.model.admission import StatusCause

Level = Literal["error", "warning"]


class Finding(NamedTuple):
    """A mistake, or something that is probably one."""

    code: str
    """One of `ERRORS` and `WARNINGS`."""
    field: str
    """Path of the member, such as ``entries[0].patches[1].path``; ``""`` for the object itself."""
    message: str
    """What is wrong and what to do, without the path."""

    @property
    def level(self) -> Level:
        """An error is refused at admission; a warning is admitted and reported."""
        return "error" if self.code in ERRORS else "warning"

    @property
    def text(self) -> str:
        """The path with the message."""
        return f"{self.field}: {self.message}" if self.field else self.message

    def cause(self) -> StatusCause:
        """Return the finding as a refusal lists it."""
        return StatusCause(self.field, self.message, ERRORS.get(self.code, "FieldValueInvalid"))


ERRORS: Final = {
    "required": "FieldValueRequired",
    "invalid": "FieldValueInvalid",
    "unsupported": "FieldValueNotSupported",
    "unknown-field": "FieldValueForbidden",
    "forbidden": "FieldValueForbidden",
    "immutable": "FieldValueForbidden",
    "duplicate": "FieldValueDuplicate",
    "image": "FieldValueInvalid",
    "does-not-fit": "FieldValueInvalid",
    "unknown-kind": "FieldValueNotSupported",
}
"""Codes that admission refuses, with the reason of the ``metav1.StatusCause``."""

WARNINGS: Final = {
    "token": "a misspelled {{nodepool}} is not replaced",
    "unused-entry": "an entry applies to no node pool",
    "no-effect": "an entry changes no workload",
    "dry-run": "rendering for the node pools shows a probable mistake",
    "unknown-pool": "the subject has no node pool of that name",
    "unknown-subject": "the subject is not known",
    "no-controller": "no controller of OpenYurt creates the subject's workloads",
    "no-pools": "the subject has no node pool, or names one that does not exist",
    "not-checked": "another mistake prevents rendering the overrider",
}
"""Codes that admission warns about, with their meaning."""
