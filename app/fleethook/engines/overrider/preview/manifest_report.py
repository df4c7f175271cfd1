"""Reports the findings about served manifests: a log line for each new finding, and a detail of ``/readyz``."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.preview.manifest_findings import ManifestFinding, check_each

_log: Final = logging.getLogger(__name__)

# Users and probes read /readyz, so it has the first findings only. The log has all.
_MAX_SHOWN: Final = 20
_LEVELS: Final = {"error": logging.ERROR, "warning": logging.WARNING}


class ManifestReport:
    """The findings of the last check of the manifests.

    Attributes:
        findings: The findings by file and line, empty before the first check.
    """

    def __init__(self, store: StoreView) -> None:
        self._store: Final = store
        self.findings: list[ManifestFinding] = []

    async def refresh(self, documents: Sequence[Document]) -> None:
        """Check the manifests and log new findings.

        The server answers requests between two documents. The store must not change meanwhile.

        Args:
            documents: The objects in the store, with their files.
        """
        found: list[ManifestFinding] = []
        for of_document in check_each(documents, self._store):
            found += of_document
            await asyncio.sleep(0)
        # The line is not compared: an inserted comment must not make the findings below it new.
        known = {(one.source, one.level, one.text) for one in self.findings}
        for one in found:
            if (one.source, one.level, one.text) not in known:
                fields = {"file": one.source, "line": one.line, "code": one.finding.code}
                _log.log(_LEVELS[one.level], "%s: %s", one.place, one.text, extra={"fields": fields})
        self.findings = found

    def detail(self) -> str:
        """Return the findings as one text, ``""`` if there are none."""
        shown = "; ".join(_format_line(one) for one in self.findings[:_MAX_SHOWN])
        more = len(self.findings) - _MAX_SHOWN
        return f"{shown}; and {more} more" if more > 0 else shown


def _format_line(one: ManifestFinding) -> str:
    return f"{one.place}: {one.level}: {one.text}"
