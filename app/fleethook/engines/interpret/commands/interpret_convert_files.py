"""``fleethook interpret convert``: convert health checks of Argo CD to customizations with fixtures."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from fleethook.cli.command_line import CHECK_FAILED, UNREADABLE, Option, fail
from fleethook.cli.fixture_results import FixtureCase, FixtureResult
from fleethook.cli.inputs.manifests import read_manifests, write_input_errors
from fleethook.cli.options import FilenameOption, FilesArgument, InputOptions, Output, YamlOutputOption
from fleethook.cli.output.findings_output import count_levels
from fleethook.cli.output.text_output import flush, write, write_document, write_error, write_json
from fleethook.cluster.manifests.manifest_files import decode_text, is_directory, list_files, name_source, read_file
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, FieldLines, ManifestError, read_values
from fleethook.cluster.manifests.yaml_scalars import NoAliasDumper, yaml_text
from fleethook.cluster.store import key_of
from fleethook.engines.interpret.argocd_configmap import (
    ConversionRemark,
    HealthCheck,
    ScriptPlace,
    format_pattern,
    read_checks,
)
from fleethook.engines.interpret.argocd_conversion import Converted, HealthTest, convert_checks
from fleethook.engines.interpret.commands.interpret import run_fixture
from fleethook.engines.interpret.commands.interpret_inputs import build_chain
from fleethook.engines.interpret.interpreter_fixtures import read_fixtures
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.model.gvk import DEFINITION, GroupVersionKind, gvk_of, list_served_kinds, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_list, as_object
from fleethook.outbound.calls_and_retries import HookClient

SCRIPT: Final = "health.lua"
_TESTS: Final = "health_test.yaml"
_ROOT: Final = "resource_customizations"
_TEST_MEMBERS: Final = frozenset({"tests", "actionTests", "discoveryTests"})


class HealthChecks(NamedTuple):
    """The content of files and directories."""

    checks: list[HealthCheck]
    tests: list[HealthTest]
    kinds: list[GroupVersionKind]
    remarks: list[ConversionRemark]
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
    checks = HealthChecks([], [], [*kinds], [], [])
    _read_manifests(checks, [*manifests, *beside], reading)
    directories = [path for path in manifests if is_directory(path)]
    listed = list_files(directories, reading.exclude or (), testdata=True, suffix=".lua")
    for file in dict.fromkeys((*scripts, *listed)):
        if isinstance(file, ManifestError):
            checks.errors.append(file)
        elif file.name == SCRIPT or file in scripts:
            _read_script(checks, file, kinds)
    return checks


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
    """Return the kind of an object, or the kinds that a CustomResourceDefinition serves."""
    return list_served_kinds(document) if key_of(document).group_kind == DEFINITION else iter([gvk_of(document)])


def _read_tests(document: Document, lines: FieldLines) -> Iterator[tuple[Path | None, HealthTest | ConversionRemark]]:
    """Yield the tests of a ``health_test.yaml`` with their files. As in Argo CD, the case of names does not matter."""
    for number, value in enumerate(as_list(document.object.get("tests"))):
        place = ScriptPlace(document.source, lines.line(document, f"tests[{number}]"))
        test = {name.lower(): member for name, member in as_object(value).items()}
        name, status = test.get("inputpath"), as_object(test.get("healthstatus")).get("status")
        if not isinstance(name, str):
            yield None, ConversionRemark("error", "test", document.source, "the test has no inputPath", place)
            continue
        path = Path(document.source).parent / name
        try:
            test_object = _read_test_object(path)
        except ManifestError as error:
            yield path, ConversionRemark("error", "test", name, f"the test's object cannot be read: {error}", place)
        else:
            yield path, HealthTest(name, gvk_of(test_object), test_object, str(status or ""), place)


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
    place = ScriptPlace(str(file), 1, 1)
    pattern = _find_pattern(file.parent)
    if pattern:
        found.checks.append(HealthCheck(pattern, script, place))
        return
    tested = [test.kind for test in found.tests if Path(test.place.source).parent == file.parent]
    own = tuple(dict.fromkeys(kinds or tested))
    if own:
        found.checks.append(HealthCheck(format_pattern(own[0].group_kind), script, place, own))
    else:
        text = f"the file is not in a directory GROUP/KIND, and no test is in {_TESTS} beside it: give --kind"
        found.remarks.append(ConversionRemark("error", "no-kind", file.name, text, place))


def _find_pattern(directory: Path) -> str:
    """Return the kinds that a directory names by ``GROUP/KIND``, ``""`` if it names none; ``_`` is a wildcard."""
    directory = directory.absolute()
    group, kind = directory.parent.name.replace("_", "*"), directory.name.replace("_", "*")
    if directory.parent.name == _ROOT:
        return kind
    is_kind = kind[:1].isupper() or "*" in kind
    return f"{group}/{kind}" if is_kind and ("." in group or directory.parent.parent.name == _ROOT) else ""


_CUSTOMIZATION_FILE: Final = "customizations.yaml"
_FIXTURE_FILE: Final = "testdata/interprethealth-test.yaml"
# Lines that a literal block of YAML cannot have.
_UNPRINTABLE: Final = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


class ScriptSource(StrEnum):
    """Products whose scripts the command converts."""

    ARGOCD = "argocd"


def convert(
    source: Annotated[ScriptSource, Option("--from", help="Product whose scripts to convert.")],
    files: FilesArgument = None,
    filename: FilenameOption = None,
    kind: Annotated[
        list[str] | None,
        Option(
            "--kind",
            metavar="GROUP/VERSION/KIND",
            help="Kind of a script outside of a directory GROUP/KIND, or a version of a kind; may be repeated.",
        ),
    ] = None,
    output_dir: Annotated[
        Path | None,
        Option(
            "--output-dir",
            help="Directory for GROUP/VERSION/KIND/customizations.yaml and the fixtures below it; existing files stay.",
        ),
    ] = None,
    reading: InputOptions = InputOptions(),
    output: YamlOutputOption = Output.YAML,
) -> None:
    """Convert health checks of Argo CD to ResourceInterpreterCustomizations with fixtures.

    Health checks are files GROUP/KIND/health.lua with the tests of health_test.yaml beside them, and the values of an
    argocd-cm. Karmada needs the versions of a kind: they come from tests, CustomResourceDefinitions and objects in the
    input, from --kind, or from the kinds that fleethook knows.

    Prints the customizations, or writes them to --output-dir with the tests as fixtures. All fixtures are run. The
    report goes to standard error, with file and line. Errors are scripts that are not converted and tests that fail.
    Warnings are parts without a counterpart in Karmada.

    Exit codes: 0 success; 1 errors, or warnings with --strict; 2 invalid arguments or unreadable input.
    """
    del source  # Only one product is supported.
    paths = [*(files or ()), *(filename or ())]
    if not paths:
        fail("give health checks to convert: a file, a directory, or - for standard input")
    given = read_input(paths, reading, [_parse_kind(one) for one in kind or ()])
    write_input_errors(given.errors)
    if not given.checks and not given.remarks and not given.errors:
        fail(f"nothing to convert: {', '.join(map(str, paths))} has no {SCRIPT} and no resource.customizations")
    checks = convert_checks(given.checks, given.tests, given.kinds)
    results = _run_fixtures(checks.converted)
    remarks = [*given.remarks, *checks.remarks, *_report_failures(results)]
    if output_dir is not None:
        remarks += _write_files(output_dir, checks.converted)
    _print(checks.converted, remarks, output, is_written=output_dir is not None)
    passed = sum(result.passed for _, result in results)
    write_error(
        f"health checks: {len(given.checks)}, customizations: {len(checks.converted)}, "
        f"fixtures that pass: {passed} of {len(results)}"
    )
    if given.errors:
        raise SystemExit(UNREADABLE)
    if any(remark.level == "error" or (reading.strict and remark.level == "warning") for remark in remarks):
        fail(count_levels(conversion_remark.level for conversion_remark in remarks), code=CHECK_FAILED)


def _parse_kind(text: str) -> GroupVersionKind:
    api_version, _, kind = text.rpartition("/")
    if not api_version or not kind:
        fail(f"--kind {text}: expected GROUP/VERSION/KIND, or VERSION/KIND for the core group")
    return GroupVersionKind(*parse_api_version(api_version), kind)


def _run_fixtures(converted: Sequence[Converted]) -> list[tuple[Converted, FixtureResult]]:
    """Run the fixtures of the customizations."""
    documents = [Document(one.customization, one.check.place.source, one.check.place.line) for one in converted]

    async def run_all() -> list[tuple[Converted, FixtureResult]]:
        async with HookClient(allow_private=True) as client:
            chain, _ = build_chain(client, Runner(), (), documents, bundle=False)
            return [
                (one, await run_fixture(chain, FixtureCase(Path(test.place.source), test.place.line, fixture)))
                for one in converted
                for test, fixture in zip(one.tests, read_fixtures(one.build_fixtures()), strict=True)
            ]

    return asyncio.run(run_all())


def _report_failures(results: Sequence[tuple[Converted, FixtureResult]]) -> Iterator[ConversionRemark]:
    for one, result in results:
        if result.passed:
            continue
        differences = [f"{it.path}: expected {it.expected}, found {it.found}" for it in result.differences]
        text = f"the fixture fails: {result.name}: {result.error or '; '.join(differences)}"
        yield ConversionRemark("error", "fixture", one.check.pattern, text, ScriptPlace(result.file, result.line))


def _write_files(directory: Path, converted: Sequence[Converted]) -> Iterator[ConversionRemark]:
    """Write the files of a conversion; yield an error for each existing file with other content."""
    for one in converted:
        texts = {_CUSTOMIZATION_FILE: format_customization(one.customization)}
        if one.tests:
            texts[_FIXTURE_FILE] = yaml_text(one.build_fixtures(), dumper=NoAliasDumper)
        for name, text in texts.items():
            path = directory / one.folder / name
            if path.exists() and path.read_text(encoding="utf-8") != text:
                reason = "the file exists with other content: remove it, or give another directory"
                yield ConversionRemark("error", "exists", one.check.pattern, reason, ScriptPlace(str(path), 0))
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def format_customization(document: JSONObject) -> str:
    """Return a customization of one script as YAML, with the script as a literal block that has all of its bytes."""
    [(member, rule)] = document["spec"]["customizations"].items()
    script: str = rule["luaScript"]
    if _UNPRINTABLE.search(script) or not script.endswith("\n") or script.endswith("\n\n") or script[:1].isspace():
        return yaml_text(document, dumper=NoAliasDumper)
    spec = {**document["spec"], "customizations": {member: {"luaScript": "|"}}}
    head = yaml_text({**document, "spec": spec}).rpartition("luaScript:")[0]
    indent = " " * (len(head) - head.rindex("\n") + 1)
    block = "".join(f"{indent}{line}\n" if line else "\n" for line in script.removesuffix("\n").split("\n"))
    return f"{head}luaScript: |\n{block}"


def _print(
    converted: Sequence[Converted], remarks: Sequence[ConversionRemark], output: Output, *, is_written: bool
) -> None:
    if output is Output.JSON:
        rows: list[dict[str, Any]] = [
            {"level": it.level, "code": it.code, "kind": it.subject, "text": it.text, "place": _format_place(it.place)}
            for it in remarks
        ]
        fixtures = [one.build_fixtures() for one in converted if one.tests]
        write_json({"objects": [one.customization for one in converted], "fixtures": fixtures, "report": rows})
        return
    for one in () if is_written else converted:
        write("---", f"# Converted from {_format_place(one.check.place)}.")
        write_document(format_customization(one.customization))
    flush()
    for it in remarks:
        place = f"{_format_place(it.place)}: " if it.place.source else ""
        write_error(f"{place}{it.level}: {it.subject}: {it.text}")


def _format_place(place: ScriptPlace) -> str:
    return f"{place.source}:{place.line}" if place.line else place.source
