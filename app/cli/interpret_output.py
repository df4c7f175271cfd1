"""How the results of fixtures are printed: for people, as JSON, as JUnit's XML."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree as ET

from app.cli.json_output import write_json
from app.cli.styles import console, styled
from app.cli.terminal import write_document
from app.interpret.fixtures import Difference
from app.model.text import escape


class Output(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


class Verdict(NamedTuple):
    """What became of one fixture."""

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
        """Whether it was answered as it says."""
        return not self.error and not self.differences


def print_verdicts(verdicts: Sequence[Verdict], output: Output) -> None:
    """Write verdicts to standard output."""
    _PRINTERS[output](verdicts)


def _lines(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Yield what is to be said of a fixture that failed, each line with its style."""
    if verdict.error:
        yield verdict.error, ""
    for one in verdict.differences:
        yield f"{one.path}", ""
        yield f"  expected {json.dumps(one.expected)}", "green"
        yield f"  found    {json.dumps(one.found)}", "red"


def _print_text(verdicts: Sequence[Verdict]) -> None:
    terminal = console()
    for verdict in verdicts:
        word, style = ("ok  ", "green") if verdict.passed else ("FAIL", "bold red")
        terminal.print(styled(word, style), styled(f"{verdict.operation:<20} {verdict.layer:<8} {verdict.name}"))
        if not verdict.passed:
            terminal.print(styled(f"     {verdict.file}:{verdict.line}", "cyan"))
            for line, line_style in _lines(verdict):
                terminal.print(styled(f"     {line}", line_style))
    failed = sum(not verdict.passed for verdict in verdicts)
    terminal.print(styled(f"{len(verdicts) - failed} passed, {failed} failed"))


def _print_json(verdicts: Sequence[Verdict]) -> None:
    rows: list[dict[str, Any]] = [
        {**verdict._asdict(), "passed": verdict.passed, "differences": [one._asdict() for one in verdict.differences]}
        for verdict in verdicts
    ]
    write_json(rows)


def _print_junit(verdicts: Sequence[Verdict]) -> None:
    failed = sum(not verdict.passed for verdict in verdicts)
    suite = ET.Element("testsuite", name="fleethook interpret", tests=str(len(verdicts)), failures=str(failed))
    for verdict in verdicts:
        place, seconds = f"{verdict.file}:{verdict.line}", f"{verdict.seconds:.6f}"
        case = ET.SubElement(suite, "testcase", classname=escape(place), name=escape(verdict.name), time=seconds)
        if not verdict.passed:
            lines = [escape(line) for line, _ in _lines(verdict)]
            failure = ET.SubElement(case, "failure", message=lines[0])
            failure.text = "\n".join(lines)
    write_document(ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n")


_PRINTERS: Final[Mapping[Output, Any]] = {
    Output.TEXT: _print_text,
    Output.JSON: _print_json,
    Output.JUNIT: _print_junit,
}
