"""The page of the codes of ``fleethook lint``."""

from typing import Final

from docsite.reference.tables import render_page, render_table
from fleethook.api_schema import CODES as OF_OBJECTS
from fleethook.engines.dispatch.lint.configuration_validation import CODES, MEANINGS
from fleethook.engines.interpret.commands.interpreter_lint import MEANINGS as OF_INTERPRETERS
from fleethook.engines.overrider.rules import finding
from fleethook.engines.rules.commands.rule_lint import CODES as OF_RULES

_INTRODUCTION: Final = (
    "`fleethook lint` prints the code of a finding in brackets, and `--output json` as `code`. Each message names the "
    "place and the remedy. An error cannot work as written. A warning may be intended; with `--strict`, it is an error."
)
_OBJECTS: Final = (
    "These are about kinds of Kubernetes, OpenYurt, kcp, Karmada and fleethook in files, and about kinds whose "
    "CustomResourceDefinition is in the files. `unknown-field` and `unsupported` are warnings for kinds that fleethook "
    "does not answer by, such as Pods: a newer apiserver may have the field."
)
_OVERRIDERS: Final = (
    "Admission refuses an object with an error, and `fleethook render` reports the same findings. Two warnings of "
    "admission are errors in files: `unknown-subject` and `unknown-pool`."
)


def render_lint_codes() -> str:
    """Return the page."""
    webhooks = [(f"`{code}`", level, MEANINGS[code]) for code, level in CODES.items()]
    overriders = [
        (f"`{code}`", "error" if code in finding.ERRORS else "warning", _make_sentence(text))
        for code, text in finding.MEANINGS.items()
    ]
    columns = ["code", "level", "meaning"]
    objects = [(f"`{code}`", "error", meaning) for code, meaning in OF_OBJECTS.items()]
    return render_page(
        "Lint codes",
        _INTRODUCTION,
        "## All objects",
        _OBJECTS,
        render_table(columns, objects),
        "## Webhook configurations and APIBindings",
        render_table(columns, webhooks),
        "## Interpreters of Karmada",
        render_table(columns, [(f"`{code}`", *meaning) for code, meaning in OF_INTERPRETERS.items()]),
        "## Admission rules in Python",
        render_table(columns, [(f"`{code}`", "warning", meaning) for code, meaning in OF_RULES.items()]),
        "## Overriders, YurtAppSets and YurtAppDaemons",
        _OVERRIDERS,
        render_table(columns, overriders),
    )


def _make_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
