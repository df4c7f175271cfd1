"""The text of the editor: an overrider as YAML for a person, and a typed text as an overrider."""

import base64
import shlex
from typing import Final, NamedTuple

from fleethook.cluster.manifests.manifest_reader import read_documents
from fleethook.cluster.manifests.yaml_reader import Document, ManifestError, read_values
from fleethook.cluster.store import ObjectKey, StoreView, key_of
from fleethook.cluster.store.applied_manifest import LAST_APPLIED, apply_manifest
from fleethook.console.yaml_paths import dump_yaml
from fleethook.engines.overrider.rollout.manifest_findings import check_kind
from fleethook.model.formats.text import is_inert
from fleethook.model.json import JSONObject
from fleethook.model.kcp import CLUSTER_ANNOTATION, cluster_of
from fleethook.model.openyurt import API_VERSION, YURT_APP_OVERRIDER
from fleethook.patch import StrategicMergeError

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
