"""The page of the codes of ``fleethook lint``."""

from typing import Final

from docsite.reference.tables import render_page, render_table
from fleethook.engines.dispatch.lint.codes import CODES, MEANINGS
from fleethook.engines.overrider.rules import finding

_INTRODUCTION: Final = (
    "`fleethook lint` prints the code of a finding in brackets, and `--output json` as `code`. Each message names the "
    "place and the remedy. An error cannot work as written. A warning may be intended; with `--strict`, it is an error."
)
_OVERRIDERS: Final = (
    "Admission refuses an object with an error, and `fleethook render` reports the same findings. Two warnings of "
    "admission are errors in files: `unknown-subject` and `unknown-pool`. "
    "[Overriders](../overriders.md#mistakes-and-messages) has the messages."
)


def render_lint_codes() -> str:
    """Return the page."""
    webhooks = [(f"`{code}`", level, MEANINGS[code]) for code, level in CODES.items()]
    overriders = [
        (f"`{code}`", "error" if code in finding.ERRORS else "warning", _make_sentence(text))
        for code, text in finding.MEANINGS.items()
    ]
    columns = ["code", "level", "meaning"]
    return render_page(
        "Lint codes",
        _INTRODUCTION,
        "## Webhook configurations and APIBindings",
        render_table(columns, webhooks),
        "## Overriders, YurtAppSets and YurtAppDaemons",
        _OVERRIDERS,
        render_table(columns, overriders),
    )


def _make_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
