"""Find the files of manifests, and read and check the Kubernetes objects in their bytes, as kubectl does.

A document that is no Kubernetes object, such as the values of a Helm chart, is skipped. A document that should be an
object, because it has ``apiVersion`` or ``kind``, is an error, and so is one that is not YAML.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from fleethook.api_schema import Definitions, SchemaFinding, check_object
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, FieldLines, ManifestError, Value, scan_values
from fleethook.cluster.store import ObjectKey, key_of
from fleethook.model.json import JSON, JSONObject, as_object

if TYPE_CHECKING:
    from fleethook.admission.rule_in_tests import Rule
    from fleethook.admission.rule_scope_and_options import RuleError
    from fleethook.interpret.interpreter import Interpreter, LoadError

STANDARD_INPUT: Final = Path("-")
"""The name of standard input in a list of files."""
# kubectl reads the same (k8s.io/cli-runtime, pkg/resource: FileExtensions).
_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})
_TESTDATA: Final = "testdata"
RULES: Final = ".py"
"""The suffix of files of admission rules, which are read if the caller names them."""


def list_files(
    paths: Sequence[Path], exclude: Sequence[str] = (), *, testdata: bool = False, suffix: str = ""
) -> Iterator[Path | ManifestError]:
    """Yield files, and the files of directories; arguments as for `list_directory`.

    A file that the caller names may have any suffix, and may begin with a dot.
    """
    for path in paths:
        if is_directory(path):
            yield from list_directory(path, exclude=exclude, testdata=testdata, suffix=suffix)
        elif path == STANDARD_INPUT or not is_excluded(path, exclude):
            yield path


def is_directory(path: Path) -> bool:
    """Return whether a path is a directory: False for one that cannot be examined, as a read reports the reason."""
    try:
        return path.is_dir()
    except OSError:
        return False


def list_directory(
    directory: Path, *, exclude: Sequence[str] = (), testdata: bool = False, suffix: str = ""
) -> Iterator[Path | ManifestError]:
    """Yield the manifest files below a directory in order, and an error in place of each unreadable directory and pipe.

    Names that begin with a dot are left out: those of a ConfigMap volume hold its former generations.

    Args:
        directory: The directory. Links to other directories are not followed, as kubectl does.
        exclude: Patterns of files and directories to leave out (`is_excluded`).
        suffix: The suffix of other files to list instead, such as ``.py``.
        testdata: Whether to include ``testdata`` directories. They hold fixtures of interpreters, not manifests.
    """
    suffixes = {suffix} if suffix else _SUFFIXES
    errors: list[OSError] = []
    paths: list[Path] = []
    for parent, directories, files in os.walk(directory, onerror=errors.append):
        directories[:] = [one for one in directories if _is_visible(one) and (testdata or one != _TESTDATA)]
        paths += (Path(parent, file) for file in files if _is_visible(file) and Path(file).suffix in suffixes)
    for path in sorted(paths):
        if not is_excluded(path, exclude, below=directory):
            yield _check_type(path)
    yield from (make_error(Path(str(error.filename)), error) for error in errors)


def _check_type(path: Path) -> Path | ManifestError:
    """Return the file, or an error for a pipe or a device, because reading one could block for ever."""
    is_other = path.exists() and not path.is_file()
    return ManifestError(str(path), 0, "is not a regular file") if is_other else path


def _is_visible(name: str) -> bool:
    return not name.startswith(".")


def is_excluded(path: Path, exclude: Sequence[str], *, below: Path | None = None) -> bool:
    """Return whether one of the patterns matches a file.

    A pattern such as ``values.yaml`` or ``charts`` matches the name of a file or of a directory around it. A pattern
    with a slash, such as ``charts/*``, matches the path below the directory of the command, or the path as given; a
    leading ``**/`` matches any directories or none.
    """
    return any(_matches(path, below, one) for one in exclude)


def _matches(path: Path, below: Path | None, pattern: str) -> bool:
    pattern = pattern.removeprefix("./").rstrip("/")
    relative = path if below is None else path.relative_to(below)
    if "/" not in pattern:
        return any(fnmatchcase(part, pattern) for part in relative.parts)
    candidates: list[PurePath] = [relative, *relative.parents, path, *path.parents]
    if pattern.startswith("**/"):
        candidates += [PurePath(*relative.parts[start:]) for start in range(1, len(relative.parts))]
        return any(fnmatchcase(str(candidate), pattern[3:]) for candidate in candidates)
    return any(fnmatchcase(str(candidate), pattern) for candidate in candidates)


def read_file(path: Path) -> bytes:
    """Return the content of a file or of standard input; raises ManifestError if it cannot be read."""
    if path == STANDARD_INPUT and sys.stdin is None:
        raise ManifestError(name_source(path), 0, "standard input is closed: give a file in place of -")
    try:
        return sys.stdin.buffer.read() if path == STANDARD_INPUT else path.read_bytes()
    except OSError as error:
        raise make_error(path, error) from None


def make_error(path: Path, error: OSError) -> ManifestError:
    """Return the error of a file that cannot be read."""
    return ManifestError(name_source(path), 0, f"cannot be read: {error.strerror or error}")


def name_source(path: Path) -> str:
    """Return the name of a file in messages."""
    return "<stdin>" if path == STANDARD_INPUT else str(path)


_CHART_VERSIONS: Final = frozenset({"v1", "v2"})
# Groups of files that tools read, such as a kustomization or the configuration of kubeadm. No apiserver stores them.
_TOOL_GROUPS: Final = (
    ".config.k8s.io", "kubeadm.k8s.io", "kind.x-k8s.io", "audit.k8s.io", "client.authentication.k8s.io", "skaffold",
)  # fmt: skip
# Requests to webhooks, as files for `fleethook explain` or for a test.
_REVIEWS: Final = frozenset({"AdmissionReview", "ExploreReview", "ResourceInterpreterContext"})


class Skipped(NamedTuple):
    """A document that is no Kubernetes object."""

    source: str
    line: int
    reason: str

    def __str__(self) -> str:
        """Return ``FILE:LINE: reason``."""
        return f"{self.source}:{self.line}: {self.reason}"


def describe_skipped(skipped: Sequence[Skipped]) -> str:
    """Return the number of skipped documents in words, ``""`` if there is none."""
    if not skipped:
        return ""
    documents = (
        "1 document that is no Kubernetes object"
        if len(skipped) == 1
        else (f"{len(skipped)} documents that are no Kubernetes objects")
    )
    return f"skipped {documents}"


class Manifest(NamedTuple):
    """The content of a file, or of several.

    Attributes:
        documents: The objects.
        skipped: Documents that are no Kubernetes objects.
        errors: Documents that cannot be read, and objects without the members that each object needs.
        selected: Documents that are no Kubernetes objects, but that the caller asked for.
    """

    documents: list[Document]
    skipped: list[Skipped]
    errors: list[ManifestError]
    selected: list[Document]

    def extend(self, other: "Manifest") -> None:
        """Add the content of another file."""
        for own, more in zip(self, other, strict=True):
            own.extend(more)  # type: ignore[attr-defined]


def decode_text(content: bytes, *, source: str) -> str:
    """Return the text of a file in UTF-8; raises ManifestError for another encoding."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = f"the byte 0x{content[error.start]:02x}"
        raise ManifestError(source, line, f"{byte} is not valid UTF-8: save the file as UTF-8") from None


def read_manifest(content: bytes, *, source: str, select: Callable[[JSON], bool] | None = None) -> Manifest:
    """Return the content of a file. A list (``kind: List``, ``DeploymentList``) yields its items.

    Args:
        content: YAML or JSON.
        source: The name of the file in errors.
        select: Whether the caller asks for a document that is no Kubernetes object, such as a fixture.
    """
    manifest = Manifest([], [], [], [])
    try:
        text = decode_text(content, source=source)
    except ManifestError as error:
        manifest.errors.append(error)
        return manifest
    for value in scan_values(text, source=source):
        if isinstance(value, ManifestError):
            manifest.errors.append(value)
        elif not _is_named(value.value) and select is not None and select(value.value):
            manifest.selected.append(_make_document(value, source))
        elif reason := _find_reason_to_skip(value.value):
            manifest.skipped.append(Skipped(source, value.line, reason))
        else:
            _add_objects(value, source, manifest)
    return manifest


def read_documents(text: str, *, source: str) -> list[Document]:
    """Return the objects in ``text``.

    Raises:
        ManifestError: The first document that is no object.
    """
    manifest = read_manifest(text.encode(), source=source)
    skipped = (ManifestError(*one) for one in manifest.skipped)
    first = min((*manifest.errors, *skipped), key=lambda one: one.line, default=None)
    if first is not None:
        raise first
    return manifest.documents


def _find_reason_to_skip(value: JSON) -> str:
    """Return the reason why a document is no Kubernetes object, ``""`` if it is one or should be one."""
    if isinstance(value, list):
        # kubectl refuses a list of objects. Skipping the list would hide them.
        has_objects = any(isinstance(one, dict) and {"apiVersion", "kind"} <= one.keys() for one in value)
        return "" if has_objects else "is a list, not a Kubernetes object"
    if not isinstance(value, dict):
        return "is text, not a Kubernetes object"
    if not value.keys() & {"apiVersion", "kind"}:
        return "has neither apiVersion nor kind"
    return _find_tool(value)


def _find_tool(value: JSONObject) -> str:
    """Return the reason why no apiserver stores a document, ``""`` if one does or should."""
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if _is_named(value):
        return ""
    if "kind" not in value:
        is_chart = api_version in _CHART_VERSIONS and {"name", "version"} <= value.keys()
        return "is the Chart.yaml of a Helm chart" if is_chart else ""
    group = api_version.partition("/")[0] if isinstance(api_version, str) else ""
    if group.endswith(_TOOL_GROUPS) or (api_version, kind) == ("v1", "Config"):
        return f"is a file of a tool ({api_version} {kind}), not a Kubernetes object"
    if kind in _REVIEWS:
        return f"is a request ({kind}), not a Kubernetes object"
    if as_object(value.get("metadata")).get("generateName"):
        return f"is a {kind} without a name: its metadata has generateName"
    return ""


def _is_named(value: JSON) -> bool:
    """Return whether a document has apiVersion, kind and a name, as each object."""
    found = as_object(value)
    return bool(found.get("apiVersion") and found.get("kind") and as_object(found.get("metadata")).get("name"))


def _make_document(value: Value, source: str, path: Sequence[int] = ()) -> Document:
    return Document(value.value, source, value.line, value.text, (value.number, *path), value.first_line)


def _add_objects(value: Value, source: str, found: Manifest) -> None:
    """Add the object of a document, or the items of a list, or an error for each that is no object."""
    lines = FieldLines()
    for one, pointer, path in _expand_list(value.value, "", ()):
        document = _make_document(value._replace(value=one), source, path)
        if found_problem := _find_problem(one) or _find_unquoted(one):
            field, reason = found_problem
            text = f"{pointer}: {reason}" if pointer else reason
            found.errors.append(ManifestError(source, lines.line(document, field), text))
        else:
            found.documents.append(document)


def _expand_list(value: JSON, pointer: str, path: tuple[int, ...]) -> Iterator[tuple[JSON, str, tuple[int, ...]]]:
    """Yield a document, or the items of a list, with their JSON pointers and paths (`Document.path`)."""
    if not _is_list(value):
        yield value, pointer, path
        return
    items = value.get("items")
    if items is None:
        return
    if not isinstance(items, list):
        yield items, f"{pointer}/items", path
        return
    # As kubectl does: items of a DeploymentList need neither apiVersion nor kind.
    kind = value["kind"].removesuffix("List")
    for number, item in enumerate(items):
        if kind and isinstance(item, dict) and not (item.get("apiVersion") or item.get("kind")):
            item = {"apiVersion": value["apiVersion"], **item, "kind": kind}  # noqa: PLW2901
        yield from _expand_list(item, f"{pointer}/items/{number}", (*path, number))


def _is_list(value: JSON) -> TypeGuard[JSONObject]:
    """Return whether a document is a list. An object whose kind ends with List, such as IPAllowList, has a name."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or not value.get("apiVersion"):
        return False
    return value["kind"] == "List" or (value["kind"].endswith("List") and "items" in value and not _is_named(value))


def _find_problem(value: JSON) -> tuple[str, str] | None:
    """Return the field and the reason for which a value cannot be an object, None if it can."""
    if not isinstance(value, dict):
        of_list = "kubectl reads no list of objects: separate them by ---, or put them into the items of a List"
        return "", of_list if isinstance(
            value, list
        ) else "a manifest must be an object with apiVersion, kind and metadata"
    for member in ("apiVersion", "kind"):
        if isinstance(value.get(member), bool | int | float):
            return member, f"{member} must be text, not {json.dumps(value[member])}: quote it"
    if not all(isinstance(value.get(member), str) and value[member] for member in ("apiVersion", "kind")):
        return "", "apiVersion and kind are required"
    kind, metadata = value["kind"], value.get("metadata")
    is_unquoted = isinstance(metadata, dict) and isinstance(metadata.get("generateName"), bool | int | float)
    if not isinstance(metadata, dict) or (metadata.get("name") in (None, "") and not is_unquoted):
        return "", f"{kind} has no metadata.name"
    for member in ("labels", "annotations"):
        if metadata.get(member) and not isinstance(metadata[member], dict):
            return f"metadata.{member}", f"metadata.{member} of {kind} {metadata.get('name')} must be a mapping"
    return None


def _find_unquoted(value: JSONObject) -> tuple[str, str] | None:
    """Return the field and the problem of the first name, label or annotation that YAML does not read as text."""
    kind, metadata = value["kind"], value["metadata"]
    identities = [("metadata", name, metadata.get(name)) for name in ("name", "namespace", "generateName")]
    for member in ("labels", "annotations"):
        identities += ((f"metadata.{member}", *one) for one in (metadata.get(member) or {}).items())
    for member, name, found in identities:
        # An apiserver reads null as an empty text, and patches of kustomize remove members by it.
        if found is not None and not isinstance(found, str):
            called = f" {metadata['name']}" if isinstance(metadata.get("name"), str) else ""
            field = f"{member}.{name}"
            return field, f"{field} of {kind}{called} must be text, not {json.dumps(found)}: quote it"
    return None


def read_python(path: Path) -> Manifest:
    """Return the webhook configurations of the admission rules in a file, each with the place of its rule.

    A file of interpreters for Karmada has no objects, but an error if it cannot be loaded.
    """
    text = read_file(path)
    if b"fleethook.interpret" in text and b"fleethook.admission" not in text:
        return Manifest([], [], load_interpreters([str(path)])[1], [])
    from fleethook.admission.decorators_and_files import load_rules  # noqa: PLC0415 - as above
    from fleethook.admission.rule_scope_and_options import RuleError  # noqa: PLC0415 - only files of rules need CEL

    try:
        return Manifest(describe_rules(load_rules([path])), [], [], [])
    except RuleError as error:
        return Manifest([], [], [make_load_error(error)], [])


def load_interpreters(sources: Iterable[str]) -> "tuple[list[Interpreter], list[ManifestError]]":
    """Return the interpreters in Python files or modules, and an error for each source that cannot be loaded."""
    from fleethook.interpret.interpreter import LoadError, load  # noqa: PLC0415 - only files of interpreters need it

    found, errors = list["Interpreter"](), list[ManifestError]()
    for source in sources:
        try:
            found += load(source)
        except LoadError as error:
            errors.append(make_load_error(error))
    return found, errors


def describe_rules(rules: "Iterable[Rule]") -> list[Document]:
    """Return the webhook configurations of admission rules, each with the place of its rule."""
    from fleethook.cluster.registration.rule_webhooks_and_outage import describe_rule  # noqa: PLC0415 - as above

    return [Document(describe_rule(rule), rule.file, rule.line) for rule in rules]


def make_load_error(error: "RuleError | LoadError") -> ManifestError:
    """Return the error of a file of admission rules or interpreters that cannot be used."""
    place, _, reason = str(error).partition(": ")
    file, _, line = place.rpartition(":")
    return ManifestError(file, int(line), reason) if line.isdigit() else ManifestError(place, 0, reason)


class ObjectFinding(NamedTuple):
    """A finding about an object of a file."""

    key: ObjectKey
    finding: SchemaFinding
    place: str
    """``FILE:LINE`` of the field."""

    @property
    def text(self) -> str:
        """The object, field and message on one line, without place and level."""
        return f"{self.key.text}: {self.finding.field}: {self.finding.message}"


def check_objects(documents: Iterable[Document], definitions: Definitions) -> Iterator[ObjectFinding]:
    """Yield the findings about objects, by object and line. Objects of a cluster are as its own API has them.

    Args:
        documents: The objects.
        definitions: The CustomResourceDefinitions of the files, and of other files beside them.
    """
    lines = FieldLines()
    for document in (one for one in documents if one.line):
        findings = check_object(document.object, definitions)
        located = sorted((lines.line(document, finding.field), finding) for finding in findings)
        for line, one in located:
            yield ObjectFinding(key_of(document.object), one, document._replace(line=line).place)
