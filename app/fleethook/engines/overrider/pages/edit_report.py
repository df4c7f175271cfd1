"""The effect of an edited overrider: findings, the difference in each node pool, and the workloads that would roll.

The findings equal those of `fleethook lint --change`, the differences those of `fleethook render --change`, and the
effects those of `fleethook diff`.
"""

import base64
import shlex
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.manifests.manifest_reader import read_documents
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines, ManifestError, read_values
from fleethook.cluster.store import Index, ObjectKey, Stored, StoreView, key_of
from fleethook.console.yaml_paths import dump_yaml
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.pages.fleet import CellKey, find_cell, list_running, make_row, workload_key
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rollout.edit import EditEffects, predict_edit
from fleethook.engines.overrider.rollout.guard import read_edit
from fleethook.engines.overrider.rollout.manifest_findings import ManifestFinding, check_edited_overrider, check_kind
from fleethook.engines.overrider.rollout.prediction import (
    Outcome,
    Totals,
    find_subjects,
    predict_in_slices,
    sum_outcomes,
)
from fleethook.engines.overrider.rollout.preview import PoolChange, PoolKey, Preview, compare_previews, preview
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.formats.text import is_inert
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.kcp import CLUSTER_ANNOTATION, cluster_of
from fleethook.model.openyurt import API_VERSION, YURT_APP_OVERRIDER
from fleethook.patch import StrategicMergeError
from fleethook.patch.three_way_merge import LAST_APPLIED, apply_manifest
from fleethook.work.pausing import Work

# An apiserver accepts objects of at most 1.5 MiB (etcd's limit), and decoding 1 MiB of YAML takes a second.
MAX_TEXT_BYTES: Final = 1 << 20
# Counting the objects of a longer file takes more than a few milliseconds.
_MAX_SOURCE: Final = 1 << 15
SOURCE: Final = "overrider.yaml"
_DEFAULT_NAMESPACE: Final = "default"
# The apiserver sets them. A manifest that a person keeps has none of them.
_SERVER_METADATA: Final = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}
)


class EditError(ValueError):
    """The typed text is no overrider that can be compared.

    Attributes:
        line: The line of the mistake, counted from 1.
        reason: The mistake and its remedy.
    """

    def __init__(self, line: int, reason: str) -> None:
        """Store the place and the reason."""
        super().__init__(f"{SOURCE}:{line}: {reason}")
        self.line: Final = line
        self.reason: Final = reason


class Edited(NamedTuple):
    """An edited overrider.

    Attributes:
        document: The overrider as the API server would hold it, with the typed text for the lines of findings.
        key: Its key.
        former: The overrider before the edit, None for a new one.
    """

    document: Document
    key: ObjectKey
    former: JSONObject | None


def format_overrider(overrider: JSONObject) -> str:
    """Return an overrider as YAML without the members that only the API server sets."""
    metadata = {name: value for name, value in overrider["metadata"].items() if name not in _SERVER_METADATA}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        kept = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        metadata = {**metadata, "annotations": kept}
        if not kept:
            del metadata["annotations"]
    shown = {name: value for name, value in overrider.items() if name != "status"}
    return dump_yaml({**shown, "metadata": metadata})


def show_source(document: Document) -> str:
    """Return the text of a manifest file with its comments, or YAML of the object if the file has others, too."""
    if document.text and len(document.text) <= _MAX_SOURCE and len(read_values(document.text, source=SOURCE)) == 1:
        is_list = len(document.path) > 1
        return format_overrider(document.object) if is_list else document.text
    return format_overrider(document.object)


def make_overrider(key: ObjectKey, subject_kind: str) -> JSONObject:
    """Return a new overrider for the subject of the same name, with an entry that changes nothing yet."""
    annotations = {"annotations": {CLUSTER_ANNOTATION: key.cluster}} if key.cluster else {}
    return {
        "apiVersion": API_VERSION,
        "kind": YURT_APP_OVERRIDER.kind,
        "metadata": {"name": key.name, **({"namespace": key.namespace} if key.namespace else {}), **annotations},
        "subject": {"apiVersion": API_VERSION, "kind": subject_kind, "name": key.name},
        "entries": [{"pools": ["*"], "items": []}],
    }


def normalize(text: str) -> str:
    """Return a text with line feeds alone; forms send carriage returns, too."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_overrider(text: str) -> Document:
    """Return the only overrider in a typed text. Reads nothing else, so it may run in a thread.

    Raises:
        EditError: The text is too long, no YAML, or not exactly one YurtAppOverrider.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_TEXT_BYTES:
        raise EditError(1, f"the text is longer than {MAX_TEXT_BYTES >> 20} MiB; use fleethook diff -f FILE")
    try:
        documents = read_documents(text, source=SOURCE)
    except ManifestError as error:
        raise EditError(error.line, error.reason) from None
    except UnicodeEncodeError:
        raise EditError(1, "the text has a half of a surrogate pair, which UTF-8 cannot encode; remove it") from None
    if not documents:
        raise EditError(1, "the text has no object; write a YurtAppOverrider")
    document = documents[0]
    if len(documents) > 1:
        reason = "the editor takes one object; use fleethook diff -f FILE for several"
        raise EditError(documents[1].line, reason)
    is_overrider = key_of(document.object).group_kind == YURT_APP_OVERRIDER
    if not is_overrider and check_kind(document.object) is None:
        kind = document.object["kind"]
        raise EditError(document.line, f"the editor takes a YurtAppOverrider, not a {kind}; use fleethook diff -f FILE")
    return document


def locate_edit(document: Document, store: StoreView, *, opened: ObjectKey | None) -> Edited:
    """Return the edit of the overrider that a typed object names.

    Args:
        document: The typed object.
        store: The objects before the edit.
        opened: The overrider that the editor was opened for. It decides the namespace and the logical cluster of a text
            that names none, as ``kubectl apply`` does with those of the kubeconfig.

    Raises:
        EditError: ``kubectl apply`` would fail.
    """
    located = document._replace(object=_complete(document.object, store, opened))
    key = key_of(located.object)
    former = store.get(*key)
    try:
        applied = apply_manifest(located.object, former)
    except StrategicMergeError as error:
        raise EditError(document.line, f"kubectl apply would fail: {error}") from None
    return Edited(located._replace(object=applied), key, former)


def _complete(typed: JSONObject, store: StoreView, opened: ObjectKey | None) -> JSONObject:
    """Return a typed object in the cluster and the namespace of the object that it changes."""
    metadata = typed["metadata"]
    if opened is not None and opened.cluster and not cluster_of(typed):
        annotations = {**(metadata.get("annotations") or {}), CLUSTER_ANNOTATION: opened.cluster}
        metadata = {**metadata, "annotations": annotations}
    if not metadata.get("namespace") and opened is not None and opened.namespace:
        metadata = {**metadata, "namespace": opened.namespace}
    completed = {**typed, "metadata": metadata}
    key = key_of(completed)
    other = {"": _DEFAULT_NAMESPACE, _DEFAULT_NAMESPACE: ""}.get(key.namespace)
    if other is not None and store.get(*key) is None and store.get(*key._replace(namespace=other)) is not None:
        # In manifests, no namespace and the namespace ``default`` are the same.
        completed = {**completed, "metadata": {**metadata, "namespace": other}}
        if not other:
            del completed["metadata"]["namespace"]
    return completed


def format_command(text: str, *, namespace: str = "") -> str:
    """Return a shell command that applies a text with kubectl.

    A quoted here-document takes each line literally. A terminal would interpret a tab or a control character while a
    user pastes it, so such a text is encoded.

    Args:
        text: The manifest.
        namespace: The namespace for kubectl, ``""`` if the manifest names it.
    """
    target = f" --namespace {shlex.quote(namespace)}" if namespace else ""
    body = text if text.endswith("\n") else f"{text}\n"
    if not is_inert(body.replace("\n", "")):
        encoded = base64.encodebytes(body.encode(errors="replace")).decode()
        return f"base64 -d <<'EOF' | kubectl apply{target} -f -\n{encoded}EOF\n"
    lines, end, number = frozenset(body.split("\n")), "EOF", 1
    while end in lines:
        number += 1
        end = f"EOF{number}"
    return f"kubectl apply{target} -f - <<'{end}'\n{body}{end}\n"


class Part(NamedTuple):
    """A part of a typed overrider.

    Attributes:
        field: The path, such as ``entries[0].items[1]``.
        line: Its first line, counted from 1; of the nearest part around it if it is missing.
        text: The text of this line.
        is_missing: Whether the overrider does not have the part.
    """

    field: str
    line: int
    text: str
    is_missing: bool


def locate_parts(document: Document, fields: Iterable[str]) -> dict[str, Part]:
    """Return parts of a typed overrider by path."""
    lines, texts = FieldLines(), document.text.split("\n")
    numbers = {field: lines.line(document, field) for field in fields}
    return {
        field: Part(field, line, texts[line - document.first_line - 1].strip(), not lines.has(document, field))
        for field, line in numbers.items()
    }


class EditedStore:
    """The objects of a store with one object edited."""

    def __init__(self, base: StoreView, key: ObjectKey, document: JSONObject) -> None:
        """Put ``document`` in place of the object under ``key``, or add it. No partial kind can be edited."""
        self._base: Final = base
        self._key: Final = key
        self._document: Final = document

    @property
    def _former(self) -> Stored | None:
        return self._base.get(*self._key)

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""
        if (cluster, group_kind, namespace, name) == self._key:
            return self._document
        return self._base.get(cluster, group_kind, namespace, name)

    def find(self, index: Index, cluster: str, key: Hashable) -> tuple[Stored, ...]:
        """Return the objects of a cluster under ``key``, in the order of their names."""
        found = self._base.find(index, cluster, key)
        if index.group_kind != self._key.group_kind or cluster != self._key.cluster:
            return found
        former = self._former
        kept = [one for one in found if one is not former]
        if key in index.keys(cluster, self._document):
            kept.append(self._document)
        return tuple(sorted(kept, key=_sort_key))

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster."""
        if (cluster, group_kind) != self._key[:2]:
            yield from self._base.each(cluster, group_kind)
            return
        former = self._former
        yield from (one for one in self._base.each(cluster, group_kind) if one is not former)
        yield self._document

    def knows(self, cluster: str) -> bool:
        """Return whether there is any object of a cluster."""
        return cluster == self._key.cluster or self._base.knows(cluster)

    def has(self, group_kind: GroupKind) -> bool:
        """Return whether there is any object of a kind, in any cluster."""
        return group_kind == self._key.group_kind or self._base.has(group_kind)


def _sort_key(document: JSONObject) -> tuple[str, str]:
    return document["metadata"].get("namespace") or "", document["metadata"]["name"]


# Two renderings of a cell take about a millisecond, and predicting the effect on a workload two.
MAX_CELLS: Final = 100
MAX_WORKLOADS: Final = 300


class Failure(NamedTuple):
    """A cell that cannot be rendered after the edit."""

    key: PoolKey
    error: str


class EditReport(NamedTuple):
    """The effect of an edit.

    Attributes:
        findings: The findings about the edited overrider, by line.
        changes: The differing workloads among the compared ones.
        failures: The compared workloads that cannot be rendered.
        compared: The number of compared cells.
        size: The number of cells of the affected subjects that match the filter.
        outcomes: The effects on stored workloads; None if there are more than `MAX_WORKLOADS`.
        stored: The number of stored workloads of the affected subjects.
        estimate: The effects over all node pools, if each workload is as its overrider rendered it. None if the edit
            concerns no known subject.
    """

    findings: Sequence[ManifestFinding]
    changes: Sequence[PoolChange]
    failures: Sequence[Failure]
    compared: int
    size: int
    outcomes: Sequence[Outcome] | None
    stored: int
    estimate: EditEffects | None

    @property
    def totals(self) -> Totals | None:
        """The sums of the effects on stored workloads."""
        return None if self.outcomes is None else sum_outcomes(self.outcomes)


def list_affected(edited: Edited, store: StoreView) -> list[ObjectKey]:
    """Return the subjects that an edit concerns: of the overrider before the edit and after it."""
    return find_subjects(store, _edit(edited, store), [edited.key])


def list_affected_workloads(edited: Edited, store: StoreView) -> list[ObjectKey]:
    """Return the keys of the stored workloads that an edit concerns."""
    return [
        workload_key(workload, subject, kind)
        for subject in list_affected(edited, store)
        for kind in ("Deployment", "StatefulSet")
        for workloads in list_running(store, subject, kind).values()
        for workload in workloads
    ]


def report_edit(
    edited: Edited, store: StoreView, running: Mapping[ObjectKey, JSONObject] | None, *, stored: int, pool: str = ""
) -> Work[EditReport]:
    """Return the effect of an edit.

    Args:
        edited: The edit.
        store: The objects before the edit.
        running: The complete workloads of `list_affected_workloads`; None if there are too many to read.
        stored: The number of these workloads.
        pool: Compare only node pools whose name contains this text, in any case.
    """
    after = _edit(edited, store)
    findings = yield from check_edited_overrider(edited.document, after)
    subjects = find_subjects(store, after, [edited.key])
    comparison = yield from _compare(subjects, store, after, pool=pool)
    outcomes = None
    if running is not None:
        outcomes = yield from predict_in_slices(store, after, running.values(), [edited.key])
    estimate = None
    edit = read_edit(edited.former, edited.document.object, namespace=edited.key.namespace, store=after)
    if edit is not None:
        estimate = yield from predict_edit(edit)
    changes, failures, compared, size = comparison
    return EditReport(findings, changes, failures, compared, size, outcomes, stored, estimate)


def _edit(edited: Edited, store: StoreView) -> EditedStore:
    return EditedStore(store, edited.key, edited.document.object)


_Comparison = tuple[list[PoolChange], list[Failure], int, int]


def _compare(subjects: Sequence[ObjectKey], before: StoreView, after: StoreView, *, pool: str) -> Work[_Comparison]:
    keys = [key for subject in subjects for key in _list_keys(subject, after, pool)]
    shown = keys[:MAX_CELLS]
    yield
    former, _ = yield from _render(shown, before)
    rendered, failures = yield from _render(shown, after)
    changes = compare_previews(former, rendered, failed=[one.key for one in failures])
    return changes, failures, len(shown), len(keys)


def _list_keys(subject: ObjectKey, store: StoreView, pool: str) -> list[PoolKey]:
    row = make_row(store, subject)
    if row is None:
        return []
    text = pool.casefold()
    return [PoolKey(subject, name, kind) for name in row.pools if text in name.casefold() for kind in row.kinds]


def _render(keys: Sequence[PoolKey], store: StoreView) -> Work[tuple[dict[PoolKey, Preview], list[Failure]]]:
    plans = PlanCache()
    previews: dict[PoolKey, Preview] = {}
    failures: list[Failure] = []
    for key in keys:
        yield
        cell = find_cell(store, CellKey(*key))
        if cell is None:
            continue
        try:
            previews[key] = preview(cell, store, plans)
        except (SubjectError, RenderError) as error:
            failures.append(Failure(key, str(error)))
    return previews, failures
