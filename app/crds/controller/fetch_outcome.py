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

_MAX_MESSAGE: Final = 4096
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


class Event(NamedTuple):
    """An event."""

    level: Literal["Normal", "Warning"]
    reason: str
    message: str


class FetchOutcome(NamedTuple):
    """How looking at an instance ended."""

    ready: Finding
    prepared: Finding
    event: Event
    retry: Retry = "never"
    fetched: Fetched | None = None
    """The tarball, if it is there."""

    @property
    def succeeded(self) -> bool:
        """Whether the CRDs are there."""
        return self.prepared.status == "True"


def report_download(url: str) -> tuple[Finding, Finding]:
    """Return what is said while the origin is being asked; the address is redacted."""
    return (
        Condition(READY, "False", "Progressing", "karmada init job is in progressing"),
        Condition(PREPARED, "False", "Downloading", f"asking {url}"),
    )


def report_deletion() -> Finding:
    """Return what is said while an instance is being taken down."""
    return Condition(READY, "False", "Progressing", "karmada deinit job is in progressing")


def report_prepared(fetched: Fetched) -> FetchOutcome:
    """Return what is said when the CRDs are there."""
    reason = _SUCCEEDED[fetched.result]
    text = f"sha256:{fetched.sha256}, {fetched.size} bytes, of {fetched.url}"
    if fetched.warnings:
        text += f"; {'; '.join(fetched.warnings)}"
    text = shorten(text)
    if fetched.result == "stale":
        event = Event("Warning", "CRDsStale", text)
    else:
        event = Event("Normal", "CRDsDownloaded" if fetched.result == "downloaded" else "CRDsCacheHit", text)
    return FetchOutcome(
        Finding(READY, "True", "Completed", "karmada init job is completed"),
        Finding(PREPARED, "True", reason, text),
        event,
        fetched=fetched,
    )


def report_failed(error: CRDsError) -> FetchOutcome:
    """Return what is said when a job failed."""
    text, reason = shorten(str(error)), _FAILED.get(error.exit, "DownloadFailed")
    step = "[unpack] inValid crd tar, err: " if error.exit in _IN_ARCHIVE else "failed to download CRD tar, err: "
    return FetchOutcome(
        Finding(READY, "False", "Failed", step + text),
        Finding(PREPARED, "False", reason, text),
        Event("Warning", f"CRDs{reason}", text),
        "soon" if error.transient else "slowly",
    )


def report_invalid(error: CRDsError) -> FetchOutcome:
    """Return what is said of an instance that says what cannot be."""
    text = shorten(str(error))
    return FetchOutcome(
        Finding(READY, "False", "ValidationError", text),
        Finding(PREPARED, "False", "SourceInvalid", text),
        Event("Warning", "ValidationError", text),
    )


def shorten(text: str) -> str:
    """Return a text as a condition can have it: escaped, and of limited length."""
    # Escaped here too: the text of a condition is compared with the stored one.
    text = escape(text)
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 3]}..."
