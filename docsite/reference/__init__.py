"""The pages below docs/reference/, generated from the code. `make schemas` writes them, `make check` compares them."""

import logging
from collections.abc import Callable
from typing import Final

from docsite.reference.commands import render_commands
from docsite.reference.lint_codes import render_lint_codes
from docsite.reference.metrics import render_metrics
from docsite.reference.routes import render_routes
from docsite.reference.settings import render_settings

_PAGES: Final[dict[str, Callable[[], str]]] = {
    "commands": render_commands,
    "lint-codes": render_lint_codes,
    "metrics": render_metrics,
    "routes": render_routes,
    "settings": render_settings,
}


def render_reference() -> dict[str, str]:
    """Return the text of each generated page, by its path in the repository."""
    logging.disable(logging.WARNING)  # nobody uses the servers that only exist to be described
    try:
        return {f"docs/reference/{name}.md": render() for name, render in _PAGES.items()}
    finally:
        logging.disable(logging.NOTSET)
