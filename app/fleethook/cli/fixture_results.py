"""Commands that run fixtures: the cases of documents with their lines, the results in text, JSON or JUnit XML."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from fleethook.cli.command_line import CHECK_FAILED, UNREADABLE, Option, raise_at_interrupt
from fleethook.cli.options import Output
from fleethook.cli.output.text_output import flush, styled, write, write_document, write_json, write_styled
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, FieldLines, ManifestError
from fleethook.fixture_format import Difference, FixtureError
from fleethook.model.formats.text import escape
from fleethook.model.json import JSON

T = TypeVar("T")


WatchOption = Annotated[bool, Option("--watch", help="Run again whenever a file changes.")]


class Case(NamedTuple):
    """A test case.

    Attributes:
        group: The owner of the case, such as a file.
        name: Its name.
        failure: The lines about its failure, the first one as a summary; none if it passes.
        seconds: Its duration, None if it is unknown.
    """

    group: str
    name: str
    failure: Sequence[str] = ()
    seconds: float | None = None


class FixtureCase(NamedTuple, Generic[T]):
    """A fixture with its file and line."""

    path: Path
    line: int
    fixture: T


class FixtureResult(NamedTuple):
    """The result of one fixture.

    Attributes:
        file: Path of the file with the fixture.
        line: Line of the fixture, from 1.
        name: Name of the fixture.
        operation: Operation that it asks about.
        layer: Layer or rule that answered or failed, ``""`` if there was none.
        seconds: Time until the answer.
        error: Reason for a missing answer, ``""`` if there is an answer.
        differences: Members of the answer that differ from the fixture.
    """

    file: str
    line: int
    name: str
    operation: str
    layer: str
    seconds: float
    error: str
    differences: list[Difference]

    @property
    def passed(self) -> bool:
        """Whether the answer equals the fixture."""
        return not self.error and not self.differences


def read_cases(
    documents: Iterable[Document], read: Callable[[JSON, list[FixtureError]], Iterator[tuple[int, T]]]
) -> tuple[list[FixtureCase[T]], list[ManifestError]]:
    """Return the fixtures of documents, and an error about each invalid fixture and document.

    Args:
        documents: The documents.
        read: Yields the index and the fixture of each test of a document, and adds the errors about invalid ones to a
            list; may raise FixtureError about the document.
    """
    cases, errors, lines = list[FixtureCase[T]](), list[ManifestError](), FieldLines()
    for document in documents:

        def find_line(test: int, document: Document = document) -> int:
            return lines.line(document, f"tests[{test}]") if "tests" in document.object else document.line

        invalid: list[FixtureError] = []
        try:
            for test, fixture in read(document.object, invalid):
                cases.append(FixtureCase(Path(document.source), find_line(test), fixture))
        except FixtureError as error:
            invalid.append(error)
        errors += (ManifestError(document.source, find_line(error.test), str(error)) for error in invalid)
    return cases, errors


def make_error_result(error: ManifestError) -> FixtureResult:
    """Return the result of a document that cannot be read."""
    return FixtureResult(error.source, max(error.line, 1), "unreadable input", "", "", 0.0, error.reason, [])


def print_results(results: Sequence[FixtureResult], output: Output, *, command: str, layer: str) -> None:
    """Write results to standard output.

    Args:
        results: The results.
        output: The format.
        command: The command, for JUnit XML.
        layer: The name of the member ``layer`` in JSON.
    """
    if output is Output.JSON:
        write_json([_make_row(result, layer) for result in results])
    elif output is Output.JUNIT:
        print_junit(command, [_make_case(result) for result in results])
    else:
        _print_text(results)
    flush()


def _describe_failure(result: FixtureResult) -> Iterator[tuple[str, str]]:
    """Yield the lines about a failed fixture, each with its style."""
    if result.error:
        yield result.error, ""
    for difference in result.differences:
        yield f"{difference.path}", ""
        yield f"  expected {json.dumps(difference.expected)}", "green"
        yield f"  found    {json.dumps(difference.found)}", "red"


def _print_text(results: Sequence[FixtureResult]) -> None:
    for result in results:
        word, style = ("ok  ", "green") if result.passed else ("FAIL", "bold red")
        write_styled(styled(word, style), styled(f"{result.operation:<20} {result.layer:<8} {result.name}"))
        if not result.passed:
            write_styled(styled(f"     {result.file}:{result.line}", "cyan"))
            for line, line_style in _describe_failure(result):
                write_styled(styled(f"     {line}", line_style))
    failed = sum(not result.passed for result in results)
    write_styled(styled(f"{len(results) - failed} passed, {failed} failed"))


def _make_row(result: FixtureResult, layer: str) -> dict[str, Any]:
    named = {layer if name == "layer" else name: value for name, value in result._asdict().items()}
    return {
        **named,
        "passed": result.passed,
        "differences": [difference._asdict() for difference in result.differences],
    }


def _make_case(result: FixtureResult) -> Case:
    failure = [line for line, _ in _describe_failure(result)]
    return Case(f"{result.file}:{result.line}", result.name, failure, result.seconds)


def run_and_exit(run: Callable[[], Sequence[FixtureResult]], *, watch: Sequence[Path] | None) -> None:
    """Run fixtures, and exit with the code of their results.

    Args:
        run: Runs the fixtures and prints their results.
        watch: The files and directories after whose changes the fixtures run again, until Ctrl-C; None to run once.
    """
    if watch is None:
        results = run()
        # Only the result of a document that cannot be read has no operation.
        if any(not result.operation for result in results):
            raise SystemExit(UNREADABLE)
        if not all(result.passed for result in results):
            raise SystemExit(CHECK_FAILED)
        return
    raise_at_interrupt()
    with contextlib.suppress(KeyboardInterrupt):
        for _ in _watch(watch):
            with contextlib.suppress(SystemExit):
                run()


def _watch(paths: Sequence[Path]) -> Iterator[None]:
    """Yield once, and then after each change of a file, until interrupted."""
    import watchfiles  # noqa: PLC0415 - only --watch needs it

    yield
    for _ in watchfiles.watch(*paths, raise_interrupt=True):
        write("")
        yield


def print_junit(command: str, cases: Sequence[Case]) -> None:
    """Write cases to standard output."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415 - only JUnit XML needs it

    failures = sum(bool(one.failure) for one in cases)
    suite = ET.Element("testsuite", name=command, tests=str(len(cases)), failures=str(failures))
    begin, end = ET.tostring(suite, "unicode", xml_declaration=True, short_empty_elements=False).rsplit("<", 1)
    write_document(begin)
    for one in cases:
        case = ET.Element("testcase", classname=escape(one.group), name=escape(one.name))
        if one.seconds is not None:
            case.set("time", f"{one.seconds:.6f}")
        if one.failure:
            lines = [escape(line) for line in one.failure]
            failure = ET.SubElement(case, "failure", message=lines[0])
            if lines[1:]:
                failure.text = "\n".join(lines)
        write_document(ET.tostring(case, "unicode"))
    write_document(f"<{end}\n")
