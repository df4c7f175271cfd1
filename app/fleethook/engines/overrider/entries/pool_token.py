"""Finds misspelled ``{{nodepool}}`` tokens in the texts of an entry, which rendering does not replace."""

import re
from collections.abc import Iterator
from typing import Final

from fleethook.engines.overrider.rules.finding import Finding
from fleethook.model.json import JSON
from fleethook.model.openyurt import NODEPOOL_TOKEN

# A name in braces, as in templates of other tools: {{ nodepool }}, {{.NodePool}}, {{nodepool-name}} (the token of
# YurtAppSet v1beta1), {nodepool}. The repetitions have limits, so that the search takes linear time.
_BRACED: Final = re.compile(r"(?<!\$)\{{1,2}[ \t]{0,8}[.$]?([A-Za-z][A-Za-z _.-]{0,30}?)[ \t]{0,8}\}{1,2}")
_NAMES: Final = frozenset({"nodepool", "nodepools", "nodepoolname", "pool", "poolname"})
# The same mistake in a thousand values needs no thousand findings.
_MAX_FINDINGS: Final = 20


def misspelled_token(text: str) -> str | None:
    """Return the first misspelling of ``{{nodepool}}`` in ``text``, or None."""
    if "{" not in text:
        return None
    for found in _BRACED.finditer(text.replace(NODEPOOL_TOKEN, "")):
        name = re.sub(r"[ _.-]", "", found.group(1)).casefold()
        if name in _NAMES:
            return found.group()
    return None


def token_problem(token: str) -> str:
    """Return the message about a misspelled token."""
    return f"{token} is not replaced and stays as it is: write {NODEPOOL_TOKEN} for the name of the node pool"


def misspelled_tokens(value: JSON, field: str) -> Iterator[Finding]:
    """Yield a warning for the texts and keys in ``value`` that contain a misspelled token.

    Args:
        value: A patch's path or value, or an item.
        field: Its path.
    """
    for number, (path, token) in enumerate(_find_misspelled(value, field)):
        if number == _MAX_FINDINGS:
            return
        yield Finding("token", path, token_problem(token))


def _find_misspelled(value: JSON, field: str) -> Iterator[tuple[str, str]]:
    pending = [(field, value)]  # Not recursive, because the decoder allows deeply nested values.
    while pending:
        path, one = pending.pop()
        if isinstance(one, str):
            if (token := misspelled_token(one)) is not None:
                yield path, token
        elif isinstance(one, dict):
            for key, inner in reversed(one.items()):
                pending += [(f"{path}.{key}", inner), (f"{path}.{key}", key)]
        elif isinstance(one, list):
            pending += [(f"{path}[{number}]", inner) for number, inner in reversed(list(enumerate(one)))]
