"""A finding about an overrider or its subject. All entry points report the same findings."""

from typing import Final, Literal, NamedTuple

from fleethook.model.admission import StatusCause

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
    "refused": "FieldValueInvalid",
}
"""Codes of errors, with the reason of the ``metav1.StatusCause``."""

ERROR_MEANINGS: Final[dict[str, str]] = {
    "required": "a required field is missing or empty",
    "invalid": "a value has a wrong type or format",
    "unsupported": "a value is none of those that the field supports",
    "unknown-field": "the object has no field of that name",
    "forbidden": "a patch or an item changes a field that belongs to the subject, its controller or fleethook",
    "immutable": "the edit changes a field that must keep its value",
    "duplicate": "a value appears twice, or the subject has another overrider",
    "image": "an image reference is invalid",
    "does-not-fit": "an entry cannot be applied to the subject in one of its node pools",
    "unknown-kind": "the group has no such kind or version",
    "refused": "kube-apiserver would refuse the workloads of the subject, even without an overrider",
}
"""Codes of errors, with their meaning."""

WARNINGS: Final = {
    "token": "a misspelled {{nodepool}} is not replaced",
    "unused-entry": "an entry applies to no node pool",
    "no-effect": "an entry changes no workload",
    "dry-run": "rendering for the node pools shows a probable mistake",
    "unknown-pool": "the subject has no node pool of that name",
    "unknown-subject": "the subject is not known",
    "no-controller": "no controller of OpenYurt creates the subject's workloads",
    "no-pools": "the subject has no node pool, or names one that does not exist",
    "dropped": "kube-apiserver would drop a field of the subject's workloads, because it does not exist",
    "template": "kube-apiserver would refuse or drop a part of the subject's workloads, even without the overrider",
    "not-checked": "another mistake prevents rendering the overrider",
}
"""Codes of warnings, with their meaning."""


Level = Literal["error", "warning"]


class Finding(NamedTuple):
    """A mistake, or a probable mistake."""

    code: str
    """One of `ERRORS` and `WARNINGS` in `fleethook.engines.overrider.rules.finding`."""
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
