"""Reads health checks of Argo CD from files: scripts with their tests, and objects that hold scripts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fleethook.cli.inputs.manifests import read_manifests
from fleethook.cli.options import InputOptions
from fleethook.cluster.manifests.manifest_reader import decode_text, is_directory, list_files, name_source, read_file
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines, ManifestError, read_values
from fleethook.cluster.store.store import key_of
from fleethook.engines.interpret.argocd.checks import HealthCheck, Place, Remark, read_checks
from fleethook.engines.interpret.argocd.conversion import HealthTest
from fleethook.model.gvk import DEFINITION, GroupVersionKind, gvk_of
from fleethook.model.json import JSON, JSONObject, as_object

SCRIPT: Final = "health.lua"
_TESTS: Final = "health_test.yaml"
_ACTION_SCRIPTS: Final = ("action.lua", "discovery.lua")
_ROOT: Final = "resource_customizations"
_TEST_MEMBERS: Final = frozenset({"tests", "actionTests", "discoveryTests"})


class HealthChecks(NamedTuple):
    """The content of files and directories."""

    checks: list[HealthCheck]
    tests: list[HealthTest]
    kinds: list[GroupVersionKind]
    remarks: list[Remark]
    errors: list[ManifestError]


def read_input(paths: Sequence[Path], reading: InputOptions, kinds: Sequence[GroupVersionKind]) -> HealthChecks:
    """Return the content of files and directories. Input that cannot be read does not end the command.

    Args:
        paths: Scripts (``*.lua``), manifests, and directories of both.
        reading: The options of the command.
        kinds: The kinds of scripts outside of a directory of their kind, and versions of kinds.
    """
    scripts = [path for path in paths if path.suffix == ".lua"]
    manifests = [path for path in paths if path not in scripts]
    beside = [path.with_name(_TESTS) for path in scripts if path.with_name(_TESTS).is_file()]
    found = HealthChecks([], [], [*kinds], [], [])
    _read_manifests(found, [*manifests, *beside], reading)
    directories = [path for path in manifests if is_directory(path)]
    listed = list_files(directories, reading.exclude or (), testdata=True, suffix=".lua")
    actions: dict[str, Path] = {}
    for file in dict.fromkeys((*scripts, *listed)):
        if isinstance(file, ManifestError):
            found.errors.append(file)
        elif file.name in _ACTION_SCRIPTS and file not in scripts:
            actions.setdefault(_find_pattern(_find_actions(file)) or str(file), file)
        elif file.name == SCRIPT or file in scripts:
            _read_script(found, file, kinds)
    for pattern, file in actions.items():
        text = "actions have no counterpart in Karmada"
        found.remarks.append(Remark("warning", "no-counterpart", pattern, text, Place(str(file), 0)))
    return found


def _read_manifests(found: HealthChecks, paths: Sequence[Path], reading: InputOptions) -> None:
    """Read objects and tests. Objects of tests need not be complete."""
    read = read_manifests(paths, reading, select=_is_test)
    lines, inputs = FieldLines(), set[str]()
    for document in read.documents:
        checks, remarks = read_checks(document, lines)
        found.checks.extend(checks)
        found.remarks.extend(remarks)
        found.kinds.extend(_list_kinds(document.object))
    for document in read.selected:
        if Path(document.source).name != _TESTS:
            continue
        for path, test in _read_tests(document, lines):
            inputs.add(str(path))
            if isinstance(test, HealthTest):
                found.tests.append(test)
            else:
                found.remarks.append(test)
    found.errors.extend(error for error in read.errors if error.source not in inputs)


def _is_test(document: JSON) -> bool:
    """Return whether a document has tests of Argo CD."""
    return isinstance(document, dict) and not document.keys().isdisjoint(_TEST_MEMBERS)


def _list_kinds(document: JSONObject) -> Iterator[GroupVersionKind]:
    """Yield the kind of an object, or the kinds that a CustomResourceDefinition serves."""
    if key_of(document).group_kind != DEFINITION:
        yield gvk_of(document)
        return
    spec = as_object(document.get("spec"))
    versions = spec.get("versions")
    for version in versions if isinstance(versions, list) else ():
        if as_object(version).get("served"):
            yield GroupVersionKind(
                str(spec.get("group")), str(version.get("name")), str(as_object(spec.get("names")).get("kind"))
            )


def _read_tests(document: Document, lines: FieldLines) -> Iterator[tuple[Path | None, HealthTest | Remark]]:
    """Yield the tests of a ``health_test.yaml`` with their files. As in Argo CD, the case of names does not matter."""
    tests = document.object.get("tests")
    for number, value in enumerate(tests if isinstance(tests, list) else ()):
        place = Place(document.source, lines.line(document, f"tests[{number}]"))
        test = {name.lower(): member for name, member in as_object(value).items()}
        name, status = test.get("inputpath"), as_object(test.get("healthstatus")).get("status")
        if not isinstance(name, str):
            yield None, Remark("error", "test", document.source, "the test has no inputPath", place)
            continue
        path = Path(document.source).parent / name
        try:
            found = _read_test_object(path)
        except ManifestError as error:
            yield path, Remark("error", "test", name, f"the test's object cannot be read: {error}", place)
        else:
            yield path, HealthTest(name, gvk_of(found), found, str(status or ""), place)


def _read_test_object(path: Path) -> JSONObject:
    """Return the first document of a file, as Argo CD does; raises ManifestError."""
    source = name_source(path)
    values = read_values(decode_text(read_file(path), source=source), source=source)
    found = values[0].value if values else None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("apiVersion", "kind")):
        raise ManifestError(source, 0, "has no object with apiVersion and kind")
    return found


def _read_script(found: HealthChecks, file: Path, kinds: Sequence[GroupVersionKind]) -> None:
    try:
        script = decode_text(read_file(file), source=str(file))
    except ManifestError as error:
        found.errors.append(error)
        return
    place = Place(str(file), 1, 1)
    pattern = _find_pattern(file.parent)
    if pattern:
        found.checks.append(HealthCheck(pattern, script, place))
        return
    tested = [test.kind for test in found.tests if Path(test.place.source).parent == file.parent]
    own = tuple(dict.fromkeys(kinds or tested))
    if own:
        pattern = f"{own[0].group}/{own[0].kind}" if own[0].group else own[0].kind
        found.checks.append(HealthCheck(pattern, script, place, own))
    else:
        text = f"the file is not in a directory GROUP/KIND, and no test is in {_TESTS} beside it: give --kind"
        found.remarks.append(Remark("error", "no-kind", file.name, text, place))


def _find_actions(file: Path) -> Path:
    """Return the directory of the kind of an action's script."""
    return next((parent.parent for parent in file.parents if parent.name == "actions"), file.parent)


def _find_pattern(directory: Path) -> str:
    """Return the kinds that a directory names by ``GROUP/KIND``, ``""`` if it names none; ``_`` is a wildcard."""
    directory = directory.absolute()
    group, kind = directory.parent.name.replace("_", "*"), directory.name.replace("_", "*")
    if directory.parent.name == _ROOT:
        return kind
    is_kind = kind[:1].isupper() or "*" in kind
    return f"{group}/{kind}" if is_kind and ("." in group or directory.parent.parent.name == _ROOT) else ""
