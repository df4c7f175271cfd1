"""The results of commands that give existing objects to webhooks or rules: outcomes as they come, then their numbers.

They are written at once, so that a report about a large cluster needs no memory for each object. Only JUnit XML begins
with the numbers.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from fleethook.cli.command_line import CHECK_FAILED, UNREADABLE
from fleethook.cli.fixture_results import Case, print_junit
from fleethook.cli.inputs.manifests import write_input_errors
from fleethook.cli.options import InputOptions, Output
from fleethook.cli.output.findings_output import UNREADABLE_INPUT, format_annotation, make_input_row, write_annotations
from fleethook.cli.output.text_output import Styled, styled, write, write_document, write_json, write_styled
from fleethook.cluster.manifests.yaml_decoding_and_lines import ManifestError
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch import apply, diff, resolve_pointer

Outcome = Literal["allowed", "changed", "refused", "failed", "not sent"]

REDACTED: Final = "REDACTED"
"""Stands for the values of a Secret, which must not reach a log."""
MAX_SHOWN: Final = 20
"""Outcomes of one kind for one webhook or rule that text shows without ``--verbose``."""
_MAX_VALUE: Final = 80
_STYLES: Final[Mapping[str, str]] = {
    "allowed": "green", "changed": "yellow", "refused": "bold red", "failed": "bold red",
}  # fmt: skip
_BAD: Final = ("refused", "failed")
_SHOWN: Final = (*_BAD, "changed")


class Trial(NamedTuple):
    """The outcome of one webhook or rule for one object.

    Attributes:
        asked: The webhook or rule.
        subject: The object, and the operation if the command tries several: ``CREATE Deployment web/shop``.
        members: The members of the result in JSON that name object and webhook or rule.
        outcome: ``not sent`` if its filters or conditions leave the object out, ``failed`` without a usable answer.
        message: The reason of a refusal or failure.
        field: The path of the field at fault.
        place: ``FILE:LINE`` of the field or the object; ``""`` for an object of a cluster.
        patch: The operations of its patch.
        before: The object without the patch.
        after: The object with the patch.
        warnings: Its warnings.
    """

    asked: str
    subject: str
    members: JSONObject
    outcome: Outcome
    message: str = ""
    field: str = ""
    place: str = ""
    patch: tuple[JSON, ...] = ()
    before: JSON = None
    after: JSON = None
    warnings: tuple[str, ...] = ()

    @property
    def _is_secret(self) -> bool:
        return self.members.get("kind") == "Secret"

    def describe(self) -> Iterator[Styled]:
        """Yield the lines about a refusal, a failure or a change."""
        if self.message:
            yield styled(f"{self.place}: {self.message}" if self.place else self.message)
        document = self.before
        # The operations of a foreign webhook may move and test values, too.
        for one in diff(document, self.after):
            path = str(one["path"])
            yield styled(path)
            if one["op"] != "add":
                yield styled(f"  - {self._show(resolve_pointer(document, path))}", "red")
            if "value" in one:
                yield styled(f"  + {self._show(one['value'])}", "green")
            document = apply(document, [one])

    def _show(self, value: JSON) -> str:
        text = REDACTED if self._is_secret else json.dumps(value)
        return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"

    def make_row(self) -> JSONObject:
        """Return the result in JSON."""
        patch = [
            {**one, "value": REDACTED} if self._is_secret and "value" in one else one
            for one in self.patch
            if isinstance(one, dict)
        ]
        rest = {"message": self.message, "field": self.field, "place": self.place, "patch": patch}
        shown: dict[str, Any] = {**rest, "warnings": self.warnings}
        return {**self.members, "outcome": self.outcome, **{name: one for name, one in shown.items() if one}}


# The members of metadata that kube-apiserver sets when it stores a new object.
_SET_ON_CREATION: Final = frozenset(
    {
        "resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)  # fmt: skip


def remove_stored(document: JSONObject) -> JSONObject:
    """Return a stored object as a client would create it."""
    kept = as_object(document.get("metadata"))
    metadata = {member: value for member, value in kept.items() if member not in _SET_ON_CREATION}
    return {**document, "metadata": metadata}


class TrialReport:
    """Counts and prints outcomes.

    Attributes:
        counts: The numbers of outcomes of each webhook or rule.
    """

    def __init__(self, command: str, output: Output, reading: InputOptions, *, noun: str) -> None:
        """Prepare.

        Args:
            command: The command, for JUnit XML.
            output: The format.
            reading: The options ``--verbose``, to print each outcome, and ``--strict``, to fail at warnings.
            noun: The asked thing: ``webhook`` or ``rule``.
        """
        self._command: Final = command
        self._output: Final = output
        self._verbose: Final = reading.verbose
        self._strict: Final = reading.strict
        self._noun: Final = noun
        self.counts: Final[dict[str, Counter[str]]] = {}
        self._names: Final[dict[str, JSONObject]] = {}
        self._warnings: Final[Counter[tuple[str, str]]] = Counter()
        self._has_rows = False
        self._cases: Final[list[Case]] = []

    def add(self, trial: Trial) -> None:
        """Count an outcome; print it, or keep it for the end if the format needs that."""
        if (counted := self.counts.get(trial.asked)) is None:
            counted = self.counts[trial.asked] = Counter()
            named: JSONObject = {name: trial.members[name] for name in ("rule", "ruleAt") if name in trial.members}
            self._names[trial.asked] = named or {self._noun: trial.asked}
        counted[trial.outcome] += 1
        self._warnings.update((trial.asked, text) for text in trial.warnings)
        is_shown = trial.outcome in _SHOWN or (self._verbose and trial.outcome == "allowed")
        if self._output is Output.JUNIT:
            if trial.outcome != "not sent":
                failure = [*filter(None, (trial.message, trial.place))] if trial.outcome in _BAD else []
                self._cases.append(Case(trial.asked, trial.subject, failure))
        elif self._output is Output.JSON:
            if is_shown:
                begin = ",\n" if self._has_rows else '{"results": [\n'
                write_json(trial.make_row(), indent=None, begin=begin, end="")
                self._has_rows = True
        elif self._output is Output.GITHUB:
            if trial.outcome in _BAD:
                text = f"{trial.subject}, {trial.asked}: {trial.message}"
                write(format_annotation("error", trial.outcome, text, trial.place))
        elif is_shown and (self._verbose or counted[trial.outcome] <= MAX_SHOWN):
            style = _STYLES[trial.outcome]
            write_styled(styled(f"{trial.outcome:<8}", style), styled(f"{trial.subject}, {trial.asked}"))
            for line in trial.describe():
                write_styled(styled("        "), line)

    def finish(self, unreadable: Sequence[ManifestError] = ()) -> None:
        """Write the numbers, and exit if something is refused, has failed or could not be read."""
        if self._output is Output.JUNIT:
            print_junit(
                self._command, [*(Case(UNREADABLE_INPUT, one.place, [one.reason]) for one in unreadable), *self._cases]
            )
        elif self._output is Output.JSON:
            errors = {"errors": [*map(make_input_row, unreadable)]} if unreadable else {}
            write_document("\n]" if self._has_rows else '{"results": []')
            for name, value in {f"{self._noun}s": self._summarize(), **errors}.items():
                write_json(value, begin=f',\n"{name}": ', end="")
            write_document("}\n")
        elif self._output is Output.GITHUB:
            write_annotations([], unreadable)
        else:
            self._print_numbers(len(unreadable))
        if unreadable:
            write_input_errors(unreadable)
        if self._strict and self._warnings:
            raise SystemExit(CHECK_FAILED)
        if any(counted[outcome] for counted in self.counts.values() for outcome in _BAD):
            raise SystemExit(CHECK_FAILED)
        if unreadable:
            raise SystemExit(UNREADABLE)

    def _print_numbers(self, unreadable: int) -> None:
        for asked, counted in self.counts.items():
            for shown in _SHOWN:
                if counted[shown] > MAX_SHOWN and not self._verbose:
                    number = counted[shown] - MAX_SHOWN
                    write_styled(styled(f"{asked}: {number:,} more {shown} (--verbose prints them)"))
        for (asked, text), number in sorted(self._warnings.items()):
            write_styled(styled("warning ", "yellow"), styled(f"{asked}: {text} (reviews: {number:,})"))
        for asked, counted in self.counts.items():
            numbers = ", ".join(f"{counted[one]:,} {one}" for one in (*_STYLES, "not sent") if counted[one])
            write_styled(styled(f"{asked}: {numbers}"))
        if not self.counts:
            write_styled(styled(f"no object matches a {self._noun}"))
        if unreadable:
            write_styled(styled(f"not examined: {unreadable:,} {'input' if unreadable == 1 else 'inputs'}"))

    def _summarize(self) -> list[JSONObject]:
        names = {"not sent": "notSent"}
        return [
            {**self._names[asked], **{names.get(one, one): counted[one] for one in (*_STYLES, "not sent")}}
            for asked, counted in self.counts.items()
        ]
