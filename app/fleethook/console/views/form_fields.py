"""The typed texts of a form: reads YAML or JSON, and says which field cannot be used."""

from dataclasses import dataclass
from typing import Final

from fleethook.cluster.manifests.yaml_reader import ManifestError, Value, read_values
from fleethook.model.json import JSON


@dataclass(frozen=True)
class FieldError:
    """A field that cannot be used, and the line at which to show the reason."""

    field: str
    text: str
    line: int = 0
    """The line in the field, 0 if the error is about no line."""


class FormFieldError(ValueError):
    """A field of a form cannot be used.

    Attributes:
        error: The field, and the reason.
    """

    def __init__(self, field: str, text: str, line: int = 0) -> None:
        """Name the field, the reason, and the line in the field (0 for none)."""
        super().__init__(text)
        self.error: Final = FieldError(field, text, line)


def limit_text(field: str, text: str, *, most: int) -> str:
    """Return a text that has at most so many characters; raises FormFieldError for a longer one."""
    if len(text) > most:
        raise FormFieldError(field, f"the text has more than {most >> 10} KiB: shorten it")
    return text


def read_documents(field: str, text: str, *, most: int) -> list[Value]:
    """Return the documents of a field that are not empty.

    Args:
        field: The field's name.
        text: YAML or JSON.
        most: Characters that the text may have.

    Raises:
        FormFieldError: The text is too long, or is neither YAML nor JSON.
    """
    try:
        values = read_values(limit_text(field, text, most=most), source=field)
    except ManifestError as error:
        raise FormFieldError(field, error.reason, error.line) from None
    return [one for one in values if one.value is not None]


def read_document(field: str, text: str, *, most: int) -> Value | None:
    """Return the only document of a field, None if the field is empty; raises FormFieldError as `read_documents`."""
    found = read_documents(field, text, most=most)
    if len(found) > 1:
        raise FormFieldError(field, f"the text has {len(found)} documents, expected one")
    return found[0] if found else None


def read_value(field: str, text: str, *, most: int) -> JSON:
    """Return the value of `read_document`, None if the field is empty."""
    found = read_document(field, text, most=most)
    return None if found is None else found.value
