"""The conditions and the event that follow from fetching the tarball of an instance, and whether to fetch it again.

``Ready`` has the reasons and messages of Karmada's operator (upstream: operator/pkg/apis/operator/v1alpha1 and
operator/pkg/controller/karmada, v1.17.1). ``CRDsPrepared`` is a condition of fleethook.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from fleethook.cluster.conditions_and_events import Condition, build_conditions, read_condition
from fleethook.engines.crds.cache_or_download import Fetched, Result
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.formats.text import escape
from fleethook.model.json import JSONObject, as_list, as_object

READY: Final = "Ready"
PREPARED: Final = "CRDsPrepared"
COMPONENT: Final = "karmada-operator-controller"
"""The source of events, with the name that Karmada's operator uses."""

Retry = Literal["never", "soon", "slowly"]
"""``never``: only a change of the spec helps. ``soon``: with backoff from 1 s. ``slowly``: every 5 minutes, because the
error does not go away by itself."""

_MAX_MESSAGE: Final = 4096
_SUCCEEDED: Final[dict[Result, str]] = {
    "downloaded": "Downloaded", "revalidated": "Revalidated", "cached": "Cached", "stale": "Stale",
    "imported": "Cached",
}  # fmt: skip
_FAILED: Final = {
    Exit.USAGE: "SourceInvalid", Exit.NOT_CACHED: "Offline", Exit.INTEGRITY: "IntegrityFailed",
    Exit.ARCHIVE: "InvalidArchive", Exit.LIMIT: "LimitExceeded",
}  # fmt: skip
# These errors get the prefix of the operator's step `unpack`, the others that of its download.
_IN_ARCHIVE: Final = (Exit.INTEGRITY, Exit.ARCHIVE, Exit.LIMIT)


class Event(NamedTuple):
    """An event."""

    level: Literal["Normal", "Warning"]
    reason: str
    message: str


class FetchOutcome(NamedTuple):
    """The result of fetching the tarball of an instance."""

    ready: Condition
    prepared: Condition
    event: Event
    retry: Retry = "never"

    @property
    def succeeded(self) -> bool:
        """Whether the cache has the tarball."""
        return self.prepared.status == "True"


def report_download(url: str) -> tuple[Condition, Condition]:
    """Return the conditions during a download; ``url`` must be redacted."""
    return (
        Condition(READY, "False", "Progressing", "karmada init job is in progressing"),
        Condition(PREPARED, "False", "Downloading", f"downloading {url}"),
    )


def report_deletion() -> Condition:
    """Return the condition of an instance that is being deleted."""
    return Condition(READY, "False", "Progressing", "karmada deinit job is in progressing")


def report_prepared(fetched: Fetched) -> FetchOutcome:
    """Return the outcome of a successful fetch."""
    reason = _SUCCEEDED[fetched.result]
    text = f"sha256:{fetched.sha256}, {fetched.size} bytes, from {fetched.url}"
    if fetched.warnings:
        text += f"; {'; '.join(fetched.warnings)}"
    text = shorten(text)
    if fetched.result == "stale":
        event = Event("Warning", "CRDsStale", text)
    else:
        event = Event("Normal", "CRDsDownloaded" if fetched.result == "downloaded" else "CRDsCacheHit", text)
    return FetchOutcome(
        Condition(READY, "True", "Completed", "karmada init job is completed"),
        Condition(PREPARED, "True", reason, text),
        event,
    )


def report_failed(error: CRDsError) -> FetchOutcome:
    """Return the outcome of a failed fetch."""
    text, reason = shorten(str(error)), _FAILED.get(error.exit, "DownloadFailed")
    step = "[unpack] inValid crd tar, err: " if error.exit in _IN_ARCHIVE else "failed to download CRD tar, err: "
    return FetchOutcome(
        Condition(READY, "False", "Failed", step + text),
        Condition(PREPARED, "False", reason, text),
        Event("Warning", f"CRDs{reason}", text),
        "soon" if error.transient else "slowly",
    )


def report_invalid(error: CRDsError) -> FetchOutcome:
    """Return the outcome for an instance with an invalid spec."""
    text = shorten(str(error))
    return FetchOutcome(
        Condition(READY, "False", "ValidationError", text),
        Condition(PREPARED, "False", "SourceInvalid", text),
        Event("Warning", "ValidationError", text),
    )


def needs_event(karmada: JSONObject, outcome: FetchOutcome) -> bool:
    """Return whether to record an event: for each failure, and for a success that the conditions do not report yet."""
    before = read_condition(as_object(karmada.get("status")).get("conditions"), PREPARED)
    return not (outcome.succeeded and outcome.event.level == "Normal" and before == outcome.prepared[1:])


def shorten(text: str) -> str:
    """Return a text for a condition: escaped, and of limited length."""
    # Escaped before it is written, because the message is compared with the stored one.
    text = escape(text)
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 3]}..."


def status_patch(
    karmada: JSONObject, findings: Sequence[Condition], *, generation: int, whole: bool, now: datetime
) -> JSONObject | None:
    """Return the merge patch that adds conditions to a status; None if the status has them already.

    Other conditions stay, and ``lastTransitionTime`` changes only with the status. Upstream replaces the list by its
    own conditions at each step, with new times.

    Args:
        karmada: The stored instance.
        findings: The conditions.
        generation: Generation of the spec that the conditions are about.
        whole: Whether to set ``observedGeneration`` too, because no other controller does.
        now: The current time.
    """
    status = as_object(karmada.get("status"))
    former = status.get("conditions")
    ours = {
        condition["type"]: condition
        for condition in build_conditions(findings, former=former, generation=generation, now=now)
    }
    merged = [ours.pop(as_object(one).get("type"), one) for one in as_list(former)]
    change: JSONObject = {"conditions": [*merged, *ours.values()]}
    if whole:
        change["observedGeneration"] = generation
    if all(status.get(name) == value for name, value in change.items()):
        return None
    return {"status": change}
