"""Coloured text on standard output, escaped as by `app.cli.terminal`."""

from rich.console import Console
from rich.text import Text

from app.model.text import escape


def styled(text: str, style: str = "", *, keep: str = "") -> Text:
    """Return text for `console`.

    Args:
        text: One line, unless ``keep`` has a line feed.
        style: A style of rich.
        keep: Characters that are not escaped.
    """
    return Text(escape(text, keep=keep), style=style)


def console() -> Console:
    """Return a console on standard output; print only what `styled` returns."""
    return Console(soft_wrap=True, highlight=False)
