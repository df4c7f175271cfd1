"""``fleethook interpret convert``: convert health checks of Argo CD to customizations with fixtures."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

from fleethook.cli.exit_codes import CHECK_FAILED, UNREADABLE, fail
from fleethook.cli.inputs.manifests import write_input_errors
from fleethook.cli.options import FilenameOption, FilesArgument, InputOptions, YamlOutput, YamlOutputOption
from fleethook.cli.output.findings_output import count_levels
from fleethook.cli.output.json_output import write_json
from fleethook.cli.output.terminal import flush, write, write_document, write_error
from fleethook.cli.output.yaml_output import NoAliasDumper, yaml_text
from fleethook.cli.parameters import Option
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.engines.interpret.argocd.checks import Place, Remark
from fleethook.engines.interpret.argocd.conversion import Converted, convert_checks
from fleethook.engines.interpret.commands.argocd_files import SCRIPT, read_input
from fleethook.engines.interpret.commands.interpret_chain import build_chain
from fleethook.engines.interpret.commands.interpret_fixtures import FixtureCase, run_fixture
from fleethook.engines.interpret.commands.interpret_output import FixtureResult
from fleethook.engines.interpret.fixtures import read_fixtures
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.json import JSONObject
from fleethook.outbound.client import HookClient

_CUSTOMIZATION_FILE: Final = "customizations.yaml"
_FIXTURE_FILE: Final = "testdata/interprethealth-test.yaml"
# Lines that a literal block of YAML cannot have.
_UNPRINTABLE: Final = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


class Source(StrEnum):
    """Products whose scripts the command converts."""

    ARGOCD = "argocd"


def convert(
    source: Annotated[Source, Option("--from", help="Product whose scripts to convert.")],
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
    output: YamlOutputOption = YamlOutput.YAML,
) -> None:
    """Convert health checks of Argo CD to ResourceInterpreterCustomizations with fixtures.

    Health checks are files GROUP/KIND/health.lua with the tests of health_test.yaml beside them, and the values of an
    argocd-cm. Scripts of Argo CD in a karmada-config or a ResourceInterpreterCustomization are converted, too. Karmada
    needs the versions of a kind: they come from tests, CustomResourceDefinitions and objects in the input, from --kind,
    or from the kinds that fleethook knows.

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
    found = convert_checks(given.checks, given.tests, given.kinds)
    results = _run_fixtures(found.converted)
    remarks = [*given.remarks, *found.remarks, *_report_failures(results)]
    if output_dir is not None:
        remarks += _write_files(output_dir, found.converted)
    _print(found.converted, remarks, output, is_written=output_dir is not None)
    passed = sum(result.passed for _, result in results)
    write_error(
        f"health checks: {len(given.checks)}, customizations: {len(found.converted)}, "
        f"fixtures that pass: {passed} of {len(results)}"
    )
    if given.errors:
        raise SystemExit(UNREADABLE)
    if any(one.level == "error" or (reading.strict and one.level == "warning") for one in remarks):
        fail(count_levels(remarks), code=CHECK_FAILED)


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
            chain = build_chain(client, Runner(), (), documents, bundle=False)
            return [
                (one, await run_fixture(chain, FixtureCase(Path(test.place.source), test.place.line, fixture)))
                for one in converted
                for test, fixture in zip(one.tests, read_fixtures(one.build_fixtures()), strict=True)
            ]

    return asyncio.run(run_all())


def _report_failures(results: Sequence[tuple[Converted, FixtureResult]]) -> Iterator[Remark]:
    for one, result in results:
        if result.passed:
            continue
        differences = [f"{it.path}: expected {it.expected}, found {it.found}" for it in result.differences]
        text = f"the fixture fails: {result.name}: {result.error or '; '.join(differences)}"
        yield Remark("error", "fixture", one.check.pattern, text, Place(result.file, result.line))


def _write_files(directory: Path, converted: Sequence[Converted]) -> Iterator[Remark]:
    """Write the files of a conversion; yield an error for each existing file with other content."""
    for one in converted:
        texts = {_CUSTOMIZATION_FILE: format_customization(one.customization)}
        if one.tests:
            texts[_FIXTURE_FILE] = yaml_text(one.build_fixtures(), dumper=NoAliasDumper)
        for name, text in texts.items():
            path = directory / one.folder / name
            if path.exists() and path.read_text(encoding="utf-8") != text:
                reason = "the file exists with other content: remove it, or give another directory"
                yield Remark("error", "exists", one.check.pattern, reason, Place(str(path), 0))
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


def _print(converted: Sequence[Converted], remarks: Sequence[Remark], output: YamlOutput, *, is_written: bool) -> None:
    if output is YamlOutput.JSON:
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


def _format_place(place: Place) -> str:
    return f"{place.source}:{place.line}" if place.line else place.source
