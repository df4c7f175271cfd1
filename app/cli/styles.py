"""Coloured text on standard output, escaped as `app.cli.terminal` does."""

from rich.console import Console
from rich.text import Text

from app.model.text import escape


def styled(text: str, style: str = "", *, keep: str = "") -> Text:
    """Return text for `console`.

    Args:
        text: The text, one line unless ``keep`` has a line feed.
        style: A style of rich, such as ``bold red``.
        keep: Control characters that are not escaped.
    """
    return Text(escape(text, keep=keep), style=style)


def console() -> Console:
    """Return a console on standard output. Print only texts from `styled`, which are escaped."""
    return Console(soft_wrap=True, highlight=False)
