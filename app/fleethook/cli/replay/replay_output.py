"""The output of ``fleethook replay``: text, JSON, JUnit XML or Markdown."""

import json
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

from fleethook.cli.output.findings_output import Case, print_junit
from fleethook.cli.output.text_output import encode_other, styled, write_document, write_error, write_styled
from fleethook.model.formats.text import escape, escape_json
from fleethook.recordings.replay.decision_changes import Change
from fleethook.recordings.replay.report import Group, Report, describe_change, describe_patch

MAX_SHOWN: Final = 50
"""Groups of changes with an example in text and Markdown; the others are counted."""
_STYLES: Final = {"-": "red", "+": "green", " ": "cyan"}


class Output(StrEnum):
    """Output formats of the command."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    MARKDOWN = "markdown"


def list_groups(report: Report) -> list[Group]:
    """Return the groups with unexpected changes, the largest first."""
    found = [group for group in report.groups.values() if group.unexpected]
    return sorted(found, key=lambda group: (-group.unexpected, group.name))


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 review``, ``1,024 reviews``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def summarize(report: Report) -> str:
    """Return the numbers of a report in one line."""
    parts = [f"{report.same:,} with the same outcome", f"{report.changed:,} changed"]
    parts += [f"{report.undecidable:,} undecidable"] if report.undecidable else []
    parts += [f"{report.expected:,} of these expected"] if report.expected else []
    parts += [f"{report.skipped.total():,} not compared"] if report.skipped else []
    interrupted = "" if report.is_complete else " (interrupted)"
    return f"{count(report.reviews, 'review')}: {', '.join(parts)}{interrupted}"


def list_notes(report: Report) -> Iterator[str]:
    """Yield the lines about everything that is no change."""
    for name, number in sorted(report.unasked.items()):
        yield f"not asked any more: {name} (in {count(number, 'review')})"
    for reason, number in sorted(report.skipped.items()):
        yield f"not compared: {count(number, 'review')}, because {reason}"
    if report.is_complete:
        for key in report.list_absent():
            yield f"expected, but not found: change {key}"


def report_problems(report: Report) -> None:
    """Write the problems of the input to standard error."""
    write_error(*(f"{problem.place}: {problem.reason}" for problem in report.problems))
    more = report.problem_count - len(report.problems)
    if more:
        write_error(f"{count(more, 'further problem')} of the input")


def describe_group(group: Group) -> str:
    """Return the kind, the route and the cause of a group."""
    kinds, route, cluster, about = group.name
    return f"{', '.join(kinds)}: {about or 'no object'}, {route}{f' in {cluster}' if cluster else ''}"


def describe_example(change: Change) -> str:
    """Return the object of an example and its place."""
    redacted = ", redacted" if change.redacted else ""
    subject = f"{change.subject} ({change.subject.operation})" if change.subject.operation else str(change.subject)
    return f"{subject or 'a body that is no review'}, {change.file}:{change.line}, change {change.key}{redacted}"


def _print_text(report: Report) -> None:
    """Write a summary for people, coloured on a terminal: groups, notes and numbers."""
    groups = list_groups(report)
    for group in groups[:MAX_SHOWN]:
        number = count(group.unexpected, "review")
        write_styled(styled(f"{describe_group(group)}: {number}", "bold"))
        write_styled(styled(f"  for example {describe_example(group.example)}"))
        for sign, text in describe_change(group.example):
            write_styled(styled(f"    {text}" if sign == " " else f"      {sign} {text}", _STYLES[sign]))
    if len(groups) > MAX_SHOWN:
        write_styled(styled(f"and {count(len(groups) - MAX_SHOWN, 'further kind')} of changes"))
    for note in list_notes(report):
        write_styled(styled(note, "yellow"))
    write_styled(styled(summarize(report)))


def _print_markdown(report: Report) -> None:
    """Write a table, examples and notes, for a comment on a pull request."""
    groups = list_groups(report)
    lines = ["## fleethook replay", "", _escape_markdown(f"{summarize(report)}."), ""]
    if groups:
        lines += ["| change | about | route | cluster | reviews |", "|---|---|---|---|---:|"]
        lines += [_make_row(group) for group in groups[:MAX_SHOWN]]
        lines.append("")
    for group in groups[:MAX_SHOWN]:
        lines += [f"### {_escape_markdown(describe_group(group))}", ""]
        lines += [
            _escape_markdown(f"For example {describe_example(group.example)}:"),
            "",
            *_fence(group.example),
            "",
        ]
    if len(groups) > MAX_SHOWN:
        lines += [f"And {count(len(groups) - MAX_SHOWN, 'further kind')} of changes.", ""]
    lines += [f"- {_escape_markdown(note)}" for note in list_notes(report)]
    write_document("".join(f"{escape(line)}\n" for line in lines))


def _make_row(group: Group) -> str:
    kinds, route, cluster, about = group.name
    cells = (", ".join(kinds), about, route, cluster, f"{group.unexpected:,}")
    return f"| {' | '.join(map(_escape_markdown, cells))} |"


def _fence(change: Change) -> Sequence[str]:
    lines = [f"{sign} {escape(text)}" for sign, text in describe_change(change)]
    # A fence must be longer than any row of backticks in its text (CommonMark 0.31, 4.5).
    longest = max((len(line) - len(line.lstrip("`")) for line in _list_tails(lines)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}diff", *lines, fence]


def _list_tails(lines: Sequence[str]) -> Iterator[str]:
    return (line[index:] for line in lines for index, character in enumerate(line) if character == "`")


def _escape_markdown(text: str) -> str:
    """Return text without the characters that Markdown or HTML would interpret."""
    escaped = "".join(f"\\{one}" if one in "\\`*_{}[]<>|#~" else one for one in escape(text))
    return escaped.replace("&", "&amp;")


def _print_cases(report: Report) -> None:
    """Write a test case for each route, which passes, and one for each group of changes, which fails."""
    groups = list_groups(report)
    changed = {group.name.route for group in groups}
    passed = [route for route in sorted(report.routes) if route not in changed]
    absent = report.list_absent() if report.is_complete else []
    cases = [Case(route, count(report.routes[route], "review")) for route in passed]
    cases += [Case(group.name.route, describe_group(group), list(_describe_failure(group))) for group in groups]
    cases += [Case("expected", key, ["the expected change was not found"]) for key in absent]
    print_junit("fleethook replay", cases, [summarize(report), *list_notes(report)])


def _describe_failure(group: Group) -> Iterator[str]:
    yield count(group.unexpected, "review")
    yield describe_example(group.example)
    yield from (f"{sign} {text}" for sign, text in describe_change(group.example))


class Printer:
    """Writes the report of a replay to standard output, and problems to standard error."""

    def __init__(self, print_report: Callable[[Report], None]) -> None:
        self._print: Final = print_report

    def add(self, change: Change, *, is_expected: bool) -> None:
        """Take a change as soon as it is found. The report has it, too."""

    def end(self, report: Report) -> None:
        """Write the report."""
        self._print(report)
        report_problems(report)


class _JSONPrinter(Printer):
    """Writes one document. Changes are written as they are found, so that memory does not grow with their number."""

    def __init__(self) -> None:
        super().__init__(self._print_rest)
        self._is_first = True

    def add(self, change: Change, *, is_expected: bool) -> None:
        """Write a change."""
        begin = '{"changes": [\n' if self._is_first else ",\n"
        self._is_first = False
        write_document(begin + _encode({**_list_members(change), "expected": is_expected}))

    def end(self, report: Report) -> None:
        """Write the rest of the document, which has the problems."""
        self._print(report)

    def _print_rest(self, report: Report) -> None:
        rest = {
            "absent": report.list_absent() if report.is_complete else [],
            "groups": [_list_group(group) for group in report.groups.values()],
            "notAsked": [{**name._asdict(), "reviews": number} for name, number in sorted(report.unasked.items())],
            "problems": [problem._asdict() for problem in report.problems],
            "summary": {
                "reviews": report.reviews, "same": report.same, "changed": report.changed,
                "undecidable": report.undecidable, "expected": report.expected, "skipped": report.skipped,
                "problems": report.problem_count, "complete": report.is_complete,
            },
        }  # fmt: skip
        begin = '{"changes": [' if self._is_first else "\n"
        members = ",\n".join(f"{_encode(name)}: {_encode(value)}" for name, value in rest.items())
        write_document(f"{begin}],\n{members}}}\n")


def _encode(value: object) -> str:
    return escape_json(json.dumps(value, default=encode_other))


def _list_members(change: Change) -> dict[str, Any]:
    differences = [
        {"aspect": one.aspect, "patch": describe_patch(one)} if one.aspect == "object" else one._asdict()
        for one in change.differences
    ]
    missing = [{"call": call, "reason": reason} for call, reason in change.missing]
    subject = change.subject._asdict()
    return {**change._asdict(), "subject": subject, "differences": differences, "missing": missing}


def _list_group(group: Group) -> dict[str, Any]:
    return {**group.name._asdict(), "reviews": group.count, "expected": group.expected, "example": group.example.key}


def make_printer(output: Output) -> Printer:
    """Return the printer of a format."""
    if output is Output.JSON:
        return _JSONPrinter()
    printers = {Output.TEXT: _print_text, Output.MARKDOWN: _print_markdown, Output.JUNIT: _print_cases}
    return Printer(printers[output])
