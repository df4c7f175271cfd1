"""The page of settings of ``fleethook serve``."""

from pathlib import Path
from typing import Final

from pydantic.fields import FieldInfo

from docsite.docstrings import read_attribute_texts
from docsite.reference.tables import render_page, render_table
from fleethook.cli.command_line import build_program
from fleethook.server_settings import ENV_PREFIX
from fleethook.settings import Settings

_INTRODUCTION: Final = (
    "Each setting is an environment variable `FLEETHOOK_<NAME>` and a key of the YAML file of `--config`; some are "
    "flags of `fleethook serve`, too. Flags override the environment, which overrides the file. Lists are JSON in the "
    "environment. The chart sets them by `settings` ([values](../../charts/fleethook/README.md))."
)
_PAGES: Final = {
    "dispatch_callers": "../dispatch.md",
    "interpret_conventions": "../conventions.md#kinds-that-nothing-else-interprets",
    "interpreter_registration": "../interpreters.md#choose-the-kinds",
    "max_connections": "../clients.md",
    "record": "../records.md",
    "rollout_warning_share": "../what-if.md#warnings-about-large-edits",
}
"""Pages with more about a setting."""


def render_settings() -> str:
    """Return the page."""
    flags = _find_flags()
    sections = [one for one in Settings.__mro__ if one.__module__.startswith("fleethook.") and one is not Settings]
    texts = dict(text for one in sections for text in read_attribute_texts(one))
    rows = [
        (
            f"`{name}`",
            f"`{flags[name]}`" if name in flags else "",
            _render_default(name, field),
            _describe(name, texts[name]),
        )
        for name, field in Settings.model_fields.items()
    ]
    example = f"For example, `body_limit` is the variable `{ENV_PREFIX}BODY_LIMIT`."
    return render_page("Settings", _INTRODUCTION, example, render_table(["setting", "flag", "default", "effect"], rows))


def _find_flags() -> dict[str, str]:
    """Return the flags of ``serve`` by the name of the setting."""
    serve = build_program().get_command(None, "serve")
    assert serve is not None
    return {one.name: one.opts[0] for one in serve.params if one.name in Settings.model_fields}


def _render_default(name: str, field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, frozenset):
        return f"`[{', '.join(sorted(value))}]`"
    if isinstance(value, (list, tuple)):
        return f"`[{', '.join(map(str, value))}]`"
    if isinstance(value, int) and name == "record_max":
        return f"`{_render_quantity(value)}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value.as_posix() if isinstance(value, Path) else value}`"


def _render_quantity(value: int) -> str:
    for suffix, unit in (("Gi", 1 << 30), ("Mi", 1 << 20)):
        if value % unit == 0:
            return f"{value // unit}{suffix}"
    return str(value)


def _describe(name: str, text: str) -> str:
    text = text.replace("<", "&lt;").replace("*", "\\*")
    return f"{text} [More]({_PAGES[name]})." if name in _PAGES else text
