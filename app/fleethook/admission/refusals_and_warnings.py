"""The refusal of an object by a rule, and the texts of refusals and warnings."""

import re
from typing import Final

from fleethook.model.admission import Response, StatusCause

REFUSALS: Final = ("Forbidden", "Invalid")
"""The reasons of responses with which a rule refuses an object; a rule that fails has another one."""
_MAX_TEXT: Final = 10_000
"""Characters of a message or a warning."""
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f][\x00-\x20\x7f-\x9f]*")


class Denied(Exception):  # noqa: N818 - the name is the decision that a rule raises
    """Refuses the object.

    Attributes:
        message: The reason, for the user.
        field: The path of the field at fault, such as ``metadata.labels``.
        code: The HTTP status code, 400 to 599.
    """

    def __init__(self, message: str, *, field: str = "", code: int = 403) -> None:
        """Store the reason; raises TypeError or ValueError for a value that no response can have."""
        super().__init__(message)
        if not isinstance(field, str):
            raise TypeError(f"field: {field!r} is no text")
        given: object = code
        if not isinstance(given, int) or given not in range(400, 600):
            raise ValueError(f"code: {code!r} is no HTTP status code of a refusal: give one from 400 to 599")
        self.message: Final = message
        self.field: Final = field
        self.code: Final = code


def to_refusal(denial: Denied, *, warnings: tuple[str, ...] = ()) -> Response:
    """Return the response to a request that a rule refuses."""
    text, field = shorten_text(denial.message), shorten_text(denial.field)
    causes = (StatusCause(field=field, message=text),) if field else ()
    message = f"{field}: {text}" if field else text
    reason = "Invalid" if denial.code == 422 else "Forbidden"
    return Response(allowed=False, code=denial.code, reason=reason, message=message, causes=causes, warnings=warnings)


def shorten_text(value: object) -> str:
    """Return the text of a message or a warning, without surrogates, which JSON lacks, and with an end."""
    try:
        text = str(value)
    except Exception as error:  # noqa: BLE001 - the method of an author's class
        text = f"its text cannot be read ({type(error).__name__})"
    kept = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
    return kept if kept.isascii() else kept.encode(errors="replace").decode()


def write_warning(value: object) -> str:
    """Return the text of a warning on one line.

    k8s.io/apimachinery/pkg/util/net, NewWarningHeader: kube-apiserver drops a warning with a control character.
    """
    return _CONTROLS.sub(" ", shorten_text(value))
