"""The findings about customizations and webhook configurations of Karmada as rows of ``fleethook lint``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fleethook.cli.inputs.sources import SourceOptions
from fleethook.cli.output.findings_output import Row
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines
from fleethook.cluster.store import Store, key_of
from fleethook.model.karmada import CONFIG_MAP, CUSTOMIZATION, EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION

if TYPE_CHECKING:
    from fleethook.engines.interpret.commands.interpret_chain import ScriptReport

INVALID: Final = "invalid-interpreter"
SUSPICIOUS: Final = "suspicious-interpreter"
MEANINGS: Final = {
    INVALID: ("error", "The customization or the webhook configuration cannot be used. Admission refuses it."),
    SUSPICIOUS: ("warning", "The code of a script probably has a mistake, or does not run on Karmada."),
}
"""The codes of the findings, each with its level."""
_LINTED: Final = frozenset({CUSTOMIZATION, CONFIG_MAP, EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION})


def lint_interpreters(documents: Sequence[Document], _store: Store, _options: SourceOptions | None) -> list[Row]:
    """Return the findings about scripts and webhook configurations, as `fleethook.engine.Engine` describes."""
    linted = [one for one in documents if key_of(one.object).group_kind in _LINTED]
    if not linted:
        return []
    from fleethook.engines.interpret.commands.interpret_chain import (  # noqa: PLC0415 - it needs Lua
        report_problems,
    )
    from fleethook.engines.interpret.lua.runner import Runner  # noqa: PLC0415 - as above

    runner, lines = Runner(), FieldLines()
    return [row for one in linted for row in list_rows(one, report_problems(one, runner), lines)]


def list_rows(document: Document, report: "ScriptReport", lines: FieldLines) -> list[Row]:
    """Return the problems and warnings about an object with their lines in its file."""
    key = key_of(document.object)
    identity = key.cluster, key.group_kind.kind, key.namespace, key.name
    rows = []
    for code, found in ((INVALID, report.problems), (SUSPICIOUS, report.warnings)):
        level, _ = MEANINGS[code]
        for field, text in found:
            place = f"{document.source}:{lines.line(document, field)}" if document.line else document.place
            rows.append(Row(level, code, *identity, webhook="", field=field, text=text, place=place))
    return rows
