"""What is said of an instance after a job, and when it is looked at again (research 7.2 and 7.3).

``Ready`` has the reasons and texts of the Go operator (operator/pkg/apis/operator/v1alpha1, operator/pkg/controller);
``CRDsPrepared`` is ours and says what it is about.
"""

from typing import Final, Literal, NamedTuple

from app.control.conditions import Condition
from app.crds.failures import CRDsError, Exit
from app.crds.fetch import Fetched, Result
from app.model.text import escape

READY: Final = "Ready"
PREPARED: Final = "CRDsPrepared"

Retry = Literal["never", "soon", "slowly"]
"""Not before the spec changes; after a pause that grows from a second; after minutes, as nothing passes by itself."""

_LONGEST: Final = 4096
_SUCCEEDED: Final[dict[Result, str]] = {
    "downloaded": "Downloaded", "revalidated": "Revalidated", "cached": "Cached", "adopted": "Adopted",
    "stale": "Stale",
}  # fmt: skip
_FAILED: Final = {
    Exit.USAGE: "SourceInvalid", Exit.NOT_CACHED: "Offline", Exit.INTEGRITY: "IntegrityFailed",
    Exit.ARCHIVE: "InvalidArchive", Exit.LIMIT: "LimitExceeded",
}  # fmt: skip
# What the Go operator puts before its errors, by the step that they are of (research 2.6).
_IN_ARCHIVE: Final = (Exit.INTEGRITY, Exit.ARCHIVE, Exit.LIMIT)


class Told(NamedTuple):
    """An event."""

    level: Literal["Normal", "Warning"]
    reason: str
    message: str


class Outcome(NamedTuple):
    """How looking at an instance ended."""

    ready: Condition
    prepared: Condition
    event: Told
    retry: Retry = "never"
    fetched: Fetched | None = None
    """The tarball, if it is there."""

    @property
    def well(self) -> bool:
        """Whether the CRDs are there."""
        return self.prepared.status == "True"


def asking(url: str) -> tuple[Condition, Condition]:
    """Return what is said while the origin is being asked; the address is redacted."""
    return (
        Condition(READY, "False", "Progressing", "karmada init job is in progressing"),
        Condition(PREPARED, "False", "Downloading", f"asking {url}"),
    )


def leaving() -> Condition:
    """Return what is said while an instance is being taken down."""
    return Condition(READY, "False", "Progressing", "karmada deinit job is in progressing")


def prepared(fetched: Fetched) -> Outcome:
    """Return what is said when the CRDs are there."""
    reason = _SUCCEEDED[fetched.result]
    text = f"sha256:{fetched.sha256}, {fetched.size} bytes, of {fetched.url}"
    if fetched.warnings:
        text += f"; {'; '.join(fetched.warnings)}"
    text = cut(text)
    if fetched.result == "stale":
        event = Told("Warning", "CRDsStale", text)
    else:
        event = Told("Normal", "CRDsDownloaded" if fetched.result == "downloaded" else "CRDsCacheHit", text)
    return Outcome(
        Condition(READY, "True", "Completed", "karmada init job is completed"),
        Condition(PREPARED, "True", reason, text),
        event,
        fetched=fetched,
    )


def failed(error: CRDsError) -> Outcome:
    """Return what is said when a job failed."""
    text, reason = cut(str(error)), _FAILED.get(error.exit, "DownloadFailed")
    step = "[unpack] inValid crd tar, err: " if error.exit in _IN_ARCHIVE else "failed to download CRD tar, err: "
    return Outcome(
        Condition(READY, "False", "Failed", step + text),
        Condition(PREPARED, "False", reason, text),
        Told("Warning", f"CRDs{reason}", text),
        "soon" if error.transient else "slowly",
    )


def refused(error: CRDsError) -> Outcome:
    """Return what is said of an instance that says what cannot be."""
    text = cut(str(error))
    return Outcome(
        Condition(READY, "False", "ValidationError", text),
        Condition(PREPARED, "False", "SourceInvalid", text),
        Told("Warning", "ValidationError", text),
    )


def cut(text: str) -> str:
    """Return a text as a condition can have it: escaped, and of limited length."""
    # Escaped here too: the text of a condition is compared with the stored one.
    text = escape(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
