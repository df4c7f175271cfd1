"""Writes the results of a command as JUnit XML, which CI systems show as tests."""

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

from fleethook.cli.output.terminal import write_document
from fleethook.model.formats.text import escape


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


def print_junit(command: str, cases: Sequence[Case], notes: Sequence[str] = ()) -> None:
    """Write cases, and notes about all of them, to standard output."""
    failures = sum(bool(one.failure) for one in cases)
    suite = ET.Element("testsuite", name=command, tests=str(len(cases)), failures=str(failures))
    for one in cases:
        case = ET.SubElement(suite, "testcase", classname=escape(one.group), name=escape(one.name))
        if one.seconds is not None:
            case.set("time", f"{one.seconds:.6f}")
        if one.failure:
            lines = [escape(line) for line in one.failure]
            failure = ET.SubElement(case, "failure", message=lines[0])
            if lines[1:]:
                failure.text = "\n".join(lines)
    if notes:
        ET.SubElement(suite, "system-out").text = "\n".join(escape(line) for line in notes)
    write_document(ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n")
