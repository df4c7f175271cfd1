"""How the results of fixtures are printed: for people, as JSON, as JUnit's XML."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.text import Text

from app.interpret.fixtures import Difference


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
    console = Console(soft_wrap=True, highlight=False)
    for verdict in verdicts:
        word, style = ("ok  ", "green") if verdict.passed else ("FAIL", "bold red")
        console.print(Text(word, style=style), Text(f"{verdict.operation:<20} {verdict.layer:<8} {verdict.name}"))
        if not verdict.passed:
            console.print(Text(f"     {verdict.file}:{verdict.line}", style="cyan"))
            for line, line_style in _lines(verdict):
                console.print(Text(f"     {line}", style=line_style))
    failed = sum(not verdict.passed for verdict in verdicts)
    console.print(Text(f"{len(verdicts) - failed} passed, {failed} failed"))


def _print_json(verdicts: Sequence[Verdict]) -> None:
    rows: list[dict[str, Any]] = [
        {**verdict._asdict(), "passed": verdict.passed, "differences": [one._asdict() for one in verdict.differences]}
        for verdict in verdicts
    ]
    sys.stdout.write(json.dumps(rows, indent=2) + "\n")


def _print_junit(verdicts: Sequence[Verdict]) -> None:
    failed = sum(not verdict.passed for verdict in verdicts)
    suite = ET.Element("testsuite", name="fleethook interpret", tests=str(len(verdicts)), failures=str(failed))
    for verdict in verdicts:
        place, seconds = f"{verdict.file}:{verdict.line}", f"{verdict.seconds:.6f}"
        case = ET.SubElement(suite, "testcase", classname=place, name=verdict.name, time=seconds)
        if not verdict.passed:
            lines = [line for line, _ in _lines(verdict)]
            failure = ET.SubElement(case, "failure", message=lines[0])
            failure.text = "\n".join(lines)
    sys.stdout.write(ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n")


_PRINTERS: Final[Mapping[Output, Any]] = {
    Output.TEXT: _print_text,
    Output.JSON: _print_json,
    Output.JUNIT: _print_junit,
}
