from xml.etree import ElementTree as ET

import pytest

from fleethook.cli.output.junit import Case, print_junit


def test_cases_failures_and_notes_are_valid_xml_with_any_text(capsys: pytest.CaptureFixture[str]) -> None:
    odd = '<&"\x00\x1b[31m'
    print_junit("run", [Case("g", odd, ["first", odd], 0.5), Case(odd, "b", ["only"]), Case("g", "c")], [odd])
    suite = ET.fromstring(capsys.readouterr().out)
    assert (suite.attrib, suite.findtext("system-out")) == (
        {"name": "run", "tests": "3", "failures": "2"},
        '<&"\\x00\\x1b[31m',
    )
    first, second, third = suite.findall("testcase")
    assert first.attrib == {"classname": "g", "name": '<&"\\x00\\x1b[31m', "time": "0.500000"}
    assert [one.findtext("failure") for one in (first, second, third)] == ['first\n<&"\\x00\\x1b[31m', "", None]
    failure = second.find("failure")
    assert failure is not None
    assert failure.attrib == {"message": "only"}
