"""The layout and the content of a CRD tarball: allowed paths and types, and CRDs with patches for them.

CRDs are below ``crds/bases``, each name once. Upstream: ``ValidateTarball`` in pkg/util/validation/validation.go,
``postCheck`` in operator/pkg/tasks/init/crd.go, and operator/pkg/tasks/init/karmadaresource.go (v1.17.1), which walks
``crds/bases``, then ``crds/patches``. Where upstream refuses an entry, the message is upstream's. Archives of another
layout get advice how to pack them. Upstream: charts/_crds (v0.9 to v1.2), charts/karmada/_crds (since v1.3) and
.github/workflows/release.yml (since v1.7).

libyaml's events are counted before objects are built from a text. A loader would expand aliases exponentially and
recurse into brackets.
"""

import posixpath
import re
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml

from fleethook.cluster.manifests.yaml_decoding_and_lines import ManifestError, read_values
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.crd_tarball import MAX_TARBALL_BYTES
from fleethook.model.formats.names_and_labels import is_dns1123_subdomain
from fleethook.model.json import JSON, JSONObject, as_object

_MIB: Final = 1024 * 1024


class ArchiveLimits(NamedTuple):
    """Limits of one tarball. A release has 90 KB, 730 KB unpacked, 33 entries, a ratio of 8.5 and 33,000 YAML nodes."""

    tarball_bytes: int = MAX_TARBALL_BYTES
    unpacked_bytes: int = 64 * _MIB
    """Size of the tar, headers and padding included."""
    file_bytes: int = 8 * _MIB
    entries: int = 2048
    """Headers of any type, including those that only carry a name or attributes of the next entry."""
    ratio: int = 100
    """Unpacked to packed size. It applies above ``ratio_from_bytes``: a small tar is mostly padding."""
    ratio_from_bytes: int = _MIB
    yaml_bytes: int = 8 * _MIB
    """Size of all YAML files together: eleven times a release."""
    yaml_nodes: int = 200_000
    """Scalars, mappings and sequences of all YAML files, together: six times a release. Reading one takes up to 9 µs,
    and 450 bytes until its file has been read: 2 s and 90 MiB for all."""
    yaml_depth: int = 200
    """Open mappings and sequences: a CRD with a pod template in its schema has about 50."""

    def max_unpacked(self, packed: int) -> int:
        """Return how many bytes a gzip file of ``packed`` bytes may inflate to."""
        return min(self.unpacked_bytes, max(self.ratio_from_bytes, self.ratio * packed))


LIMITS: Final = ArchiveLimits()


class YAMLBudget:
    """Bytes and nodes of YAML that the files of one tarball may still have. Make one for each tarball."""

    def __init__(self, limits: ArchiveLimits = LIMITS) -> None:
        """Start with the full budget of ``limits``."""
        self.limits: Final = limits
        self._bytes = limits.yaml_bytes
        self._nodes = limits.yaml_nodes

    def take_bytes(self, path: str, count: int) -> None:
        """Count the bytes of a file before it is parsed; raises CRDsError LIMIT beyond the budget."""
        self._bytes -= count
        if self._bytes < 0:
            text = f"{path}: the YAML files of the tarball have more than {self.limits.yaml_bytes} bytes together"
            raise CRDsError(Exit.LIMIT, text)

    def take_node(self, path: str) -> None:
        """Count a scalar, mapping or sequence; raises CRDsError LIMIT beyond the budget."""
        self._nodes -= 1
        if self._nodes < 0:
            text = f"{path}: the YAML files of the tarball have more than {self.limits.yaml_nodes} nodes together"
            raise CRDsError(Exit.LIMIT, text)


_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# libyaml compares each %TAG directive with all before it: 700,000 of them, 8 MiB, would take an hour.
_DIRECTIVE: Final = re.compile(r"^%", re.MULTILINE)
_MAX_MESSAGE: Final = 500  # characters: a tag or a key may have 8 MiB
_BYTE_ORDER_MARK: Final = "\ufeff"


class YAMLDocument(NamedTuple):
    """The first document of a file."""

    value: JSON
    """None for a file without a document, and for an empty first document."""
    documents: int
    """How many documents the file has. Karmada's operator applies only the first one."""


def read_document(path: str, body: bytes, budget: YAMLBudget) -> YAMLDocument:
    """Read a file as Kubernetes tools read YAML; later documents are parsed, but no objects are built from them.

    Args:
        path: The file's name for errors.
        body: The file.
        budget: The limits that the files of one tarball share. Reading takes from them.

    Raises:
        CRDsError: LIMIT beyond the budget. ARCHIVE, with the path: the file is not UTF-8 or not YAML, or has aliases,
            directives, duplicate keys, too many levels, or values that JSON does not have.
    """
    budget.take_bytes(path, len(body))
    text = _decode(path, body)
    if _DIRECTIVE.search(text):
        raise _make_error(path, "it has a directive (a line that begins with %)")
    documents, end = _check_events(path, text, budget)
    try:
        values = read_values(text[:end] if documents > 1 else text, source=path)
    except ManifestError as error:
        raise CRDsError(Exit.ARCHIVE, f"{error!s:.{_MAX_MESSAGE}}") from None
    return YAMLDocument(values[0].value if values else None, documents)


def read_object(path: str, body: bytes, budget: YAMLBudget) -> JSONObject:
    """Return the first document of a file; raises as `read_document`, and CRDsError ARCHIVE if it is no object."""
    document = read_document(path, body, budget).value
    if not isinstance(document, dict):
        raise CRDsError(Exit.ARCHIVE, f"{path} is no object")
    return document


def _decode(path: str, body: bytes) -> str:
    try:
        return body.decode().removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError:
        raise _make_error(path, "it is not UTF-8") from None


def _check_events(path: str, text: str, budget: YAMLBudget) -> tuple[int, int]:
    """Return the number of documents and the end position of the first one; raises as `read_document`."""
    documents = depth = end = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.ScalarEvent):
                budget.take_node(path)
            elif isinstance(event, yaml.CollectionStartEvent):
                budget.take_node(path)
                depth += 1
                if depth > budget.limits.yaml_depth:
                    raise _make_error(path, f"it has more than {budget.limits.yaml_depth} levels")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.AliasEvent):
                raise _make_error(path, "it has aliases")
            elif isinstance(event, yaml.DocumentEndEvent):
                documents += 1
                mark: Any = event.end_mark
                end = mark.index if documents == 1 else end
    except yaml.YAMLError as error:
        raise _make_error(path, _describe(error)) from None
    return documents, end


def _describe(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark else ""
    return f"it is not YAML{where}: {getattr(error, 'problem', None) or 'a character that YAML does not allow'}"


def _make_error(path: str, reason: str) -> CRDsError:
    return CRDsError(Exit.ARCHIVE, f"{path} cannot be read: {reason}")


REQUIRED: Final = ("crds", "crds/bases", "crds/patches")
"""The directories that Karmada's operator requires (``postCheck``)."""
BASES: Final = "crds/bases/"
_PATCHES: Final = "crds/patches/"
_API_VERSION: Final = "apiextensions.k8s.io/v1"
_KIND: Final = "CustomResourceDefinition"
_PATCHED_GROUP: Final = "work.karmada.io"  # hard-coded upstream (splitToCrdNameFormFile in karmadaresource.go)
MAC_METADATA: Final = "this is metadata of macOS: pack the directory again by `COPYFILE_DISABLE=1 tar`"
_GROUPS: Final = (".karmada.io", ".x-k8s.io")


class Tree(NamedTuple):
    """The CRDs and patches of a tarball, in the order in which Karmada's operator applies them."""

    crds: Mapping[str, JSONObject]
    """CRDs by name."""
    patches: Mapping[str, str]
    """Texts of patches by path, with their placeholders."""


class Content:
    """Checks the CRDs and patches of a tarball, one file at a time."""

    def __init__(self, limits: ArchiveLimits = LIMITS, *, keep: bool = False) -> None:
        """Prepare for one tarball.

        Args:
            limits: The limits of the YAML of all files of the tarball together.
            keep: Whether to keep the CRDs and patches for `build_tree`.
        """
        self._crds: Final[dict[str, str]] = {}
        self._documents: Final[dict[str, JSONObject]] = {}
        self._patches: Final[dict[str, bytes]] = {}
        self._keep: Final = keep
        self._budget: Final = YAMLBudget(limits)
        self.warnings: Final[list[str]] = []

    def add(self, path: str, body: bytes) -> None:
        """Check a file.

        Raises:
            CRDsError: ARCHIVE if a file of ``crds/bases`` is not a CRD, or has the CRD of another file; LIMIT if the
                YAML of all files is too large.
        """
        if not path.startswith((BASES, _PATCHES)):
            return
        if posixpath.basename(path).startswith("._"):
            raise CRDsError(Exit.ARCHIVE, f"{path}: {MAC_METADATA}")
        if path.endswith(".yml"):
            self.warnings.append(f"{path} is not applied: only files named *.yaml are")
        elif path.startswith(_PATCHES) and path.endswith(".yaml"):
            # Not parsed: with its placeholders, a patch may be invalid YAML.
            self._budget.take_bytes(path, len(body))
            self._patches[path] = body if self._keep else b""
        elif path.endswith(".yaml"):
            self._add_crd(path, body)

    def finish(self, directories: set[str]) -> tuple[str, ...]:
        """Return the warnings after the last file.

        Raises:
            CRDsError: ARCHIVE if a directory or all CRDs are missing, or a patch is for a missing CRD.
        """
        for missing in (directory for directory in REQUIRED if directory not in directories):
            raise CRDsError(Exit.ARCHIVE, f"Lacking the necessary file path: {missing}")
        if not self._crds:
            raise CRDsError(Exit.ARCHIVE, "there is no CRD under crds/bases")
        for path in self._patches:
            target = name_patched_crd(path)
            if target not in self._crds:
                raise CRDsError(Exit.ARCHIVE, f"{path} patches {target}, which the tarball does not have")
        return tuple(self.warnings)

    def build_tree(self) -> Tree:
        """Return the CRDs and patches of all files; raises CRDsError ARCHIVE if a patch is not UTF-8."""
        names = {path: name for name, path in self._crds.items()}
        crds = {names[path]: self._documents[path] for path in _sort_paths(self._documents)}
        return Tree(crds, {path: _decode(path, self._patches[path]) for path in _sort_paths(self._patches)})

    def _add_crd(self, path: str, body: bytes) -> None:
        document, documents = read_document(path, body, self._budget)
        crd = document if isinstance(document, dict) else {}
        if (crd.get("apiVersion"), crd.get("kind")) != (_API_VERSION, _KIND):
            raise CRDsError(Exit.ARCHIVE, f"{path} is not a {_KIND} of {_API_VERSION}")
        name, group = _read_name_and_group(path, crd)
        if other := self._crds.get(name):
            raise CRDsError(Exit.ARCHIVE, f"{path} has the same CRD as {other}: {name}")
        self._crds[name] = path
        if self._keep:
            self._documents[path] = crd
        self.warnings.extend(_find_warnings(path, group, documents))


def _sort_paths(paths: Iterable[str]) -> list[str]:
    # By path components, as Go's filepath.Walk does: a directory `a` comes before a file `a.yaml`.
    return sorted(paths, key=lambda path: path.split("/"))


def _read_name_and_group(path: str, crd: Mapping[str, JSON]) -> tuple[str, str]:
    name, group = as_object(crd.get("metadata")).get("name"), as_object(crd.get("spec")).get("group")
    if not isinstance(name, str) or not is_dns1123_subdomain(name):
        raise CRDsError(Exit.ARCHIVE, f"{path} is called {name!r:.500}, which is no DNS subdomain")
    # The API server requires the name <plural>.<group>.
    if not isinstance(group, str) or not group or not name.endswith(f".{group}"):
        raise CRDsError(Exit.ARCHIVE, f"{path} is called {name!r:.500}, which is no CRD of group {group!r:.500}")
    return name, group


def name_patched_crd(path: str) -> str:
    """Return the name of the CRD that a patch is for, from its file name (upstream: splitToCrdNameFormFile)."""
    name = posixpath.basename(path).rpartition("_")[2]
    return f"{name.partition('.')[0]}.{_PATCHED_GROUP}"


def _find_warnings(path: str, group: str, documents: int) -> Iterator[str]:
    if not f".{group}".endswith(_GROUPS):
        yield f"{path} has a CRD of group {group}, which is not a group of Karmada"
    if documents > 1:
        yield f"{path} has {documents} documents: only the first is applied"


TOP: Final = "crds"
_MAX_NAME_BYTES: Final = 255  # NAME_MAX of the file systems in use, in bytes
_MAX_PATH_BYTES: Final = 1024  # a quarter of PATH_MAX, which includes the path of the cache
_MAX_DEPTH: Final = 16
_FILE_TYPES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE)
# A backslash is a separator on other systems; control characters break names and log lines. tarfile reads bytes
# that are not UTF-8 as surrogates.
_FORBIDDEN: Final = re.compile(r"[\\\x00-\x1f\x7f\ud800-\udfff]")


class MisplacedError(CRDsError):
    """An entry is not below ``crds``: the archive may have another layout."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(Exit.ARCHIVE, text)
        self.name: Final = name


class Names:
    """The paths of an archive so far, to find duplicates, and paths that are both file and directory."""

    def __init__(self) -> None:
        """Prepare for one archive."""
        self.files: Final[set[str]] = set()
        self.directories: Final[set[str]] = set()

    def admit(self, member: tarfile.TarInfo) -> str:
        """Check an entry and return its path.

        Raises:
            CRDsError: ARCHIVE if the entry is not allowed; the message has its name.
        """
        _check_characters(member.name)
        directory, name = member.isdir(), show_name(member)
        if not directory and member.type not in _FILE_TYPES:
            raise CRDsError(Exit.ARCHIVE, f"unknown type: {member.type[0]} in {name}")
        path = member.name
        _check_place(member)
        _check_lengths(path)
        parents = [path[:index] for index, character in enumerate(path) if character == "/"]
        if path in self.files or not self.files.isdisjoint(parents):
            twice = "a file twice" if path in self.files and not directory else "a file and a directory"
            raise CRDsError(Exit.ARCHIVE, f"the given file contains {twice}: {name}")
        if not directory and path in self.directories:
            raise CRDsError(Exit.ARCHIVE, f"the given file contains a file and a directory: {name}")
        self.directories.update(parents)
        (self.directories if directory else self.files).add(path)
        return path


def show_name(member: tarfile.TarInfo) -> str:
    """Return the name of an entry as Karmada's operator shows it; tarfile removes the slashes behind a directory."""
    return f"{member.name}/" if member.isdir() else member.name


def _check_characters(name: str) -> None:
    if forbidden := _FORBIDDEN.search(name):
        raise CRDsError(Exit.ARCHIVE, f"the given file contains a name with {forbidden[0]!r}: {name!r}")


def _check_place(member: tarfile.TarInfo) -> None:
    directory, path = member.isdir(), member.name
    fits = path.startswith(f"{TOP}/") or (directory and path == TOP)
    if fits and _clean_path(path) == path:
        return
    how = "unexpected" if _clean_path(path) == path else "unclean"
    text = f"the given file contains {how} file {'dir' if directory else 'path'}: {show_name(member)}"
    raise MisplacedError(text, path)


def _check_lengths(path: str) -> None:
    parts = path.split("/")
    if len(parts) > _MAX_DEPTH or len(path.encode()) > _MAX_PATH_BYTES:
        raise CRDsError(Exit.ARCHIVE, f"the given file contains too long a path: {path}")
    if any(len(part.encode()) > _MAX_NAME_BYTES for part in parts):
        raise CRDsError(Exit.ARCHIVE, f"the given file contains too long a name: {path}")


def _clean_path(path: str) -> str:
    """Return the path as Go's filepath.Clean does; POSIX keeps two slashes in front, Go does not."""
    clean = posixpath.normpath(path)
    return clean[1:] if clean.startswith("//") else clean


_PACK: Final = f"`tar -czf crds.tar.gz {TOP}` in its parent directory"
_FOREIGN: Final = (
    (
        re.compile(r"((?:[^/]+/)*_crds)(?:/|$)"),
        f"this is the layout of Karmada's repository and chart: unpack it, rename {{0}} to {TOP}, pack it by {_PACK}",
    ),
    (
        re.compile(rf"((?:[^/]+/)+){TOP}/bases(?:/|$)"),
        f"the directory {TOP} is below {{0}}: unpack it, and pack {{0}}{TOP} by {_PACK}",
    ),
    (
        re.compile(r"((?:[^/]+/)*artifacts/deploy)/[a-z0-9.]+\.karmada\.io_[a-z]+\.yaml$"),
        "this is the layout of Karmada releases before 0.9, whose CRDs are in {0}: use a later release",
    ),
    (
        re.compile(r"(?:\./)?(?:(?:bases|patches)(?:/|$)|kustomization\.yaml$|[a-z0-9.-]+_[a-z]+\.yaml$)"),
        f"this is the content of the directory {TOP} without the directory: pack it by {_PACK}",
    ),
    (re.compile(r"(?:.*/)?\._[^/]+"), MAC_METADATA),
)
"""Archives of another layout, by the name of an entry, and the advice for each. The first one that fits a name wins."""


def advise(names: Collection[str]) -> str:
    """Return the layout of an archive that is no CRD tarball, and how to make one of it; `""` if it is unknown."""
    for pattern, advice in _FOREIGN:
        if found := next(filter(None, map(pattern.match, names)), None):
            return advice.format(*found.groups())
    return ""


def describe(files: Collection[str]) -> str:
    """Return the layout of a verified tarball, with the releases that have it."""
    below = [path.removeprefix(BASES) for path in files if path.startswith(BASES) and path.endswith(".yaml")]
    grouped = sum("/" in path for path in below)
    if grouped == len(below):
        return f"a directory below {BASES} for each API group, as in Karmada 1.7 and later"
    return f"{'all' if not grouped else 'some'} CRDs directly in {BASES}, as in Karmada 0.9 to 1.6"


class FileDigest(NamedTuple):
    """One regular file."""

    size: int
    sha256: str


class TarballManifest(NamedTuple):
    """A tarball, and the files in it."""

    sha256: str
    """Digest of the tarball as downloaded, hexadecimal."""
    size: int
    """Size of the tarball in bytes."""
    files: Mapping[str, FileDigest]
    """Files by path below the cache entry, such as ``crds/bases/…``."""
    warnings: tuple[str, ...] = ()
    operator_problems: tuple[str, ...] = ()
    """Reasons why Karmada's operator cannot use the tarball."""
