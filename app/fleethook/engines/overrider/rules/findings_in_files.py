"""Validates all overriders and subjects in a set of manifests, and locates the findings by file and line.

The findings and messages are those of admission. An apiserver may receive an overrider before its
subject or a node pool, but files have no order. So two warnings of admission are errors here:

- an overrider whose subject is not in the files, if the files have any YurtAppSet or YurtAppDaemon;
- an entry that names a node pool which its subject in the files does not have.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fleethook import api_schema
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, FieldLines
from fleethook.cluster.store import ObjectKey, StoreView, key_of
from fleethook.engines.overrider.rules.finding import ERRORS_IN_FILES, Finding, Level
from fleethook.engines.overrider.rules.missing_pools import (
    check_selections,
    known_pools,
    knows_node_pools,
    selects_node_pools,
)
from fleethook.engines.overrider.rules.schema_and_binding_rules import check_overrider
from fleethook.engines.overrider.rules.subject_template_rules import check_subject, check_workloads
from fleethook.engines.overrider.rules.tweak_and_topology_rules import check_combined_tweaks
from fleethook.engines.overrider.subject.subject_and_pools import Subject, is_v1beta1, listed_pools
from fleethook.engines.overrider.template.template_builder import workload_kinds
from fleethook.model.gvk import parse_api_version
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import GROUP, NODE_POOL, SUBJECT_KINDS, YURT_APP_OVERRIDER

# No other project has these kinds, so another group is a mistake. Other projects have a NodePool, too.
_OWN_KINDS: Final = frozenset(group_kind.kind for group_kind in (YURT_APP_OVERRIDER, *SUBJECT_KINDS))


def _is_of_openyurt(document: JSONObject) -> bool:
    return parse_api_version(document["apiVersion"])[0] == GROUP or document["kind"] in _OWN_KINDS


_UNIQUE_KINDS: Final = frozenset({YURT_APP_OVERRIDER, NODE_POOL, *SUBJECT_KINDS})
_UNQUOTED: Final = re.compile(r"(must be a string, not the number )(\S+)(: quote it)")
_UNKNOWN: Final = frozenset({"unknown-kind", "unknown-field"})
_OF_SUBJECTS: Final = frozenset({"template", "no-pools"})


class ManifestFinding(NamedTuple):
    """A finding about one object of the manifests."""

    level: Level
    """The level for files, see the module docstring."""
    finding: Finding
    key: ObjectKey
    source: str
    line: int
    """The line of the member with the mistake."""

    @property
    def text(self) -> str:
        """The object, field and message on one line, without file and level."""
        return f"{self.key.text}: {self.finding.text}"

    @property
    def place(self) -> str:
        """``FILE:LINE``, or the source alone for an object without line, such as one of a cluster."""
        return f"{self.source}:{self.line}" if self.line else self.source


def check_documents(documents: Sequence[Document], store: StoreView) -> list[ManifestFinding]:
    """Return the findings about the overriders and subjects in ``documents``, by document and line.

    Args:
        documents: The objects of the files.
        store: A store with the same objects.
    """
    definitions, found = api_schema.read_definitions(one.object for one in documents), list[ManifestFinding]()
    for document, of_rules in zip(documents, check_each(documents, store), strict=True):
        reported = {finding.finding.field for finding in of_rules}
        unknown = [one for one in _find_unknown(document.object, definitions) if one.field not in reported]
        found += sorted([*locate_findings(document, unknown), *of_rules], key=lambda one: one.line)
    return found


def _find_unknown(document: JSONObject, definitions: api_schema.Definitions) -> list[Finding]:
    """Return the findings about fields, kinds and versions of OpenYurt that its API lacks."""
    mistakes = api_schema.check_object(document, definitions) if _is_of_openyurt(document) else []
    return [Finding(mistake.code, mistake.field, mistake.message) for mistake in mistakes if mistake.code in _UNKNOWN]


def check_each(documents: Sequence[Document], store: StoreView) -> Iterator[list[ManifestFinding]]:
    """Yield the findings of the rules about each document, so that a server can pause between documents.

    The source of the manifests reports fields, kinds and versions that the API lacks.
    """
    lines = FieldLines()
    subjects = any(key_of(document.object).group_kind in SUBJECT_KINDS for document in documents)
    seen: dict[ObjectKey, Document] = {}
    for document in documents:
        key = key_of(document.object)
        first = seen.setdefault(key, document)
        findings = [*_check_document(document.object, key, store), *_check_duplicate(document, first)]
        yield _locate(document, findings, lines, subjects=subjects)


def locate_findings(document: Document, findings: Sequence[Finding]) -> list[ManifestFinding]:
    """Return findings about one object of the manifests with their levels and lines."""
    return _locate(document, findings, FieldLines(), subjects=True)


def _locate(
    document: Document, found: Sequence[Finding], lines: FieldLines, *, subjects: bool
) -> list[ManifestFinding]:
    """Return findings with their levels and lines, by line.

    Args:
        document: The object that the findings are about.
        found: The findings.
        lines: Finds the lines.
        subjects: Whether any subject is known, so that a missing one is an error.
    """
    located = []
    for finding in found:
        level: Level = "error" if subjects and finding.code in ERRORS_IN_FILES else finding.level
        line = lines.line(document, finding.field)
        quoted = _quote_as_written(finding, lines.written(document, finding.field))
        located.append(ManifestFinding(level, quoted, key_of(document.object), document.source, line))
    return sorted(located, key=lambda one: one.line)


def _quote_as_written(finding: Finding, written: str) -> Finding:
    """Return a finding about an unquoted number with the text of the file: YAML reads ``1.10`` as 1.1."""
    quoted = _UNQUOTED.fullmatch(finding.message)
    if quoted is None or not written or written == quoted[2]:
        return finding
    return finding._replace(message=f'{quoted[1]}{written}, which is {quoted[2]}{quoted[3]}, as in "{written}"')


def _check_document(manifest: JSONObject, key: ObjectKey, store: StoreView) -> Iterator[Finding]:
    if _is_of_openyurt(manifest) and api_schema.check_kind(manifest) is not None:
        return
    if key.group_kind == YURT_APP_OVERRIDER:
        findings = check_overrider(
            manifest, cluster=key.cluster, namespace=key.namespace, store=store, every_namespace=True
        )
        # The files have the subject, so its own findings say more.
        yield from (finding for finding in findings if finding.code not in _OF_SUBJECTS)
    elif key.group_kind in SUBJECT_KINDS:
        yield from _check_subject(Subject(key.group_kind, manifest, key.cluster), store)
        if selects_node_pools(key.group_kind, manifest) and not knows_node_pools(store, key.cluster):
            yield Finding("not-checked", "", f"no NodePool is known, so {_describe_unchecked(manifest)} to check this")


def _check_subject(subject: Subject, store: StoreView) -> Iterator[Finding]:
    mistakes = [*check_subject(subject.group_kind, subject.document)]
    yield from mistakes
    if any(mistake.level == "error" for mistake in mistakes):
        return
    of_workloads = [*check_workloads(subject.group_kind, subject.document)]
    yield from of_workloads
    yield from check_selections(subject, store)
    if is_v1beta1(subject.document) and not any(finding.level == "error" for finding in of_workloads):
        node_pools = known_pools(subject, store).node_pools
        for kind in workload_kinds(subject.document):
            yield from check_combined_tweaks(subject.document, kind, node_pools)


def _describe_unchecked(subject: JSONObject) -> str:
    if is_v1beta1(subject) and listed_pools(subject):
        return "only the pools in spec.pools could be rendered"
    return "nothing could be rendered"


def _check_duplicate(document: Document, first: Document) -> Iterator[Finding]:
    if first is not document and key_of(document.object).group_kind in _UNIQUE_KINDS:
        now, before = document.object["apiVersion"], first.object["apiVersion"]
        versions = "" if now == before else f" as {before}, which is the same object as in {now}"
        message = f"is already defined at {first.place}{versions}; remove one of them"
        yield Finding("duplicate", "metadata.name", message)


_log: Final = logging.getLogger(__name__)

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
        import asyncio  # noqa: PLC0415 - commands about files start faster without it

        findings: list[ManifestFinding] = []
        for of_document in check_each(documents, self._store):
            findings += of_document
            await asyncio.sleep(0)
        # The line is not compared: an inserted comment must not make the findings below it new.
        known = {(finding.source, finding.level, finding.text) for finding in self.findings}
        for one in findings:
            if (one.source, one.level, one.text) not in known:
                fields = {"file": one.source, "line": one.line, "code": one.finding.code}
                _log.log(_LEVELS[one.level], "%s: %s", one.place, one.text, extra={"fields": fields})
        self.findings = findings
