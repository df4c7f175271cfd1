"""The findings about customizations and webhook configurations of Karmada as rows of ``fleethook lint``."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fleethook.cli.inputs.objects_with_changes import SourceOptions
from fleethook.cli.output.findings_output import FindingRow
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, FieldLines
from fleethook.cluster.store import Store, key_of
from fleethook.engines.interpret.lua.script_warnings import list_findings, list_unportable
from fleethook.model.json import JSONObject, as_object
from fleethook.model.karmada import CONFIG_MAP, CUSTOMIZATION, EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION

if TYPE_CHECKING:
    from fleethook.engines.interpret.lua.script_layer_and_runner import Runner

INVALID: Final = "invalid-interpreter"
SUSPICIOUS: Final = "suspicious-interpreter"
MEANINGS: Final = {
    INVALID: ("error", "The customization or the webhook configuration cannot be used. Admission refuses it."),
    SUSPICIOUS: ("warning", "The code of a script probably has a mistake, or does not run on Karmada."),
}
"""The codes of the findings, each with its level."""
_LINTED: Final = frozenset({CUSTOMIZATION, CONFIG_MAP, EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION})


def lint_interpreters(documents: Sequence[Document], _store: Store, _options: SourceOptions | None) -> list[FindingRow]:
    """Return the findings about scripts and webhook configurations, as `fleethook.engine.Engine` describes."""
    linted = [document for document in documents if key_of(document.object).group_kind in _LINTED]
    if not linted:
        return []
    from fleethook.engines.interpret.lua.script_layer_and_runner import Runner  # noqa: PLC0415 - it needs Lua

    runner, lines = Runner(), FieldLines()
    rows: list[FindingRow] = []
    with_target: dict[str, list[JSONObject]] = {}
    for one in linted:
        target = as_object(one.object.get("spec")).get("target")
        earlier = with_target.setdefault(f"{key_of(one.object)[:2]} {target}", [])
        rows += _list_rows(one, earlier, runner, lines)
        earlier.append(one.object)
    return rows


def _list_rows(
    document: Document, earlier: Sequence[JSONObject], runner: "Runner", lines: FieldLines
) -> Iterator[FindingRow]:
    """Yield the mistakes in an object with their lines in its file."""
    key = key_of(document.object)
    for code, field, text in _find_mistakes(document.object, earlier, runner):
        place = f"{document.source}:{lines.line(document, field)}" if document.line else document.place
        yield FindingRow(
            MEANINGS[code][0], code, key.cluster, key.group_kind.kind, key.namespace, key.name,
            webhook="", field=field, text=text, place=place,
        )  # fmt: skip


def _find_mistakes(
    document: JSONObject, earlier: Sequence[JSONObject], runner: "Runner"
) -> Iterator[tuple[str, str, str]]:
    """Yield code, field and text of each mistake.

    Args:
        document: The object.
        earlier: Objects with the same target. Admission refuses a customization with a rule that one of them has.
        runner: Runs scripts.
    """
    from fleethook.engines.interpret.lua.customization_rules_and_configmap import (  # noqa: PLC0415 - it needs Lua
        has_scripts,
        read_object,
    )
    from fleethook.engines.interpret.lua.customizations_in_use_and_admission import (  # noqa: PLC0415 - as above
        find_conflicts,
        list_problems,
    )
    from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import (  # noqa: PLC0415 - it needs libraries for TLS
        CONFIGURATIONS,
        problems,
    )

    group_kind = key_of(document).group_kind
    if group_kind in CONFIGURATIONS:
        yield from ((INVALID, *error) for error in problems(group_kind, document))
    elif has_scripts(document):
        read = read_object(document)
        conflicts = find_conflicts(document, read, earlier) if group_kind == CUSTOMIZATION else ()
        yield from ((INVALID, *one) for one in (*list_problems(read, runner), *conflicts))
        if group_kind == CUSTOMIZATION and not (read.rules or read.problems):
            yield SUSPICIOUS, "spec.customizations", "it changes nothing: it has no script"
        for rule in read.rules:
            yield from ((SUSPICIOUS, rule.place, text) for text in (*list_findings(rule), *list_unportable(rule)))
