"""The condition, event and retry that follow from applying the CRDs of an instance."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from app.control.conditions import Condition, read_condition
from app.crds.apply.apply import Applied, summarize
from app.crds.apply.plan import StoredVersionsError
from app.crds.controller.fetch_outcome import READY, Event, Retry, shorten
from app.crds.failures import CRDsError, Exit
from app.model.json import JSON, as_object

APPLIED: Final = "CRDsApplied"
_SUCCEEDED: Final = "Applied"
_FAILED: Final = {
    Exit.USAGE: "AccessInvalid", Exit.NETWORK: "Unreachable", Exit.HTTP: "Refused", Exit.ARCHIVE: "InvalidArchive",
    Exit.LIMIT: "LimitExceeded",
}  # fmt: skip


class ApplyOutcome(NamedTuple):
    """The result of applying the CRDs of an instance."""

    finding: Condition
    event: Event
    retry: Retry = "never"

    @property
    def succeeded(self) -> bool:
        """Whether the API server of the instance has the CRDs."""
        return self.finding.status == "True"

    def derive_ready(self, prepared: Condition) -> Condition:
        """Return the condition ``Ready``, given the condition without applying."""
        if self.succeeded or prepared.status != "True":
            return prepared
        return Condition(READY, "False", "Failed", self.finding.message)


def report_applied(sha256: str, crds: Sequence[Applied]) -> ApplyOutcome:
    """Return the outcome for applied CRDs; the condition has the digest of their tarball."""
    text = f"{_format_prefix(sha256)}{summarize(crds)}"
    return ApplyOutcome(Condition(APPLIED, "True", _SUCCEEDED, text), Event("Normal", "CRDsApplied", text))


def report_not_applied(error: CRDsError) -> ApplyOutcome:
    """Return the outcome for an error."""
    kept = isinstance(error, StoredVersionsError)
    text, reason = shorten(str(error)), "StoredVersionsKept" if kept else _FAILED.get(error.exit, "ApplyFailed")
    retry: Retry = "soon" if error.transient else "slowly"
    return ApplyOutcome(Condition(APPLIED, "False", reason, text), Event("Warning", f"CRDs{reason}", text), retry)


def find_stored_outcome(conditions: JSON, sha256: str, generation: int) -> ApplyOutcome | None:
    """Return the success that the stored conditions report for a tarball and a generation, or None."""
    status, reason, message = read_condition(conditions, APPLIED)
    if status != "True" or not isinstance(message, str) or not message.startswith(_format_prefix(sha256)):
        return None
    stored = conditions if isinstance(conditions, list) else []
    generations = [one.get("observedGeneration") for one in map(as_object, stored) if one.get("type") == APPLIED]
    if generations != [generation]:
        return None
    return ApplyOutcome(Condition(APPLIED, "True", str(reason), message), Event("Normal", "CRDsApplied", message))


def _format_prefix(sha256: str) -> str:
    return f"sha256:{sha256}: "
