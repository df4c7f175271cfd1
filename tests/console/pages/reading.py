"""Reads pages as a browser does, and sends their forms."""

import re
from html.parser import HTMLParser
from typing import Any

from tests.asgi_client import Answer
from tests.console.visits import send_form, visit

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "\u202eabc\u2066",
    "' onmouseover='alert(1)",
)
_ALLOWED_SCRIPTS = {"/static/theme.js", "/static/main.js"}


class Page(HTMLParser):
    """The elements and the text of a page; `problems` lists markup that came from data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.words: list[str] = []
        self.addresses: list[str] = []
        self.problems: list[str] = []
        self.feed(text.replace("<wbr>", ""))
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.problems += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        if tag == "script" and given.get("src") not in _ALLOWED_SCRIPTS:
            self.problems.append(f"script {given}")
        if tag in ("img", "iframe", "object", "embed", "style"):
            self.problems.append(tag)
        for name in ("href", "action", "src"):
            if name in given:
                self.addresses.append(given[name])
                if not re.match(r"[/?#]", given[name]):
                    self.problems.append(f"{tag} {name}={given[name]}")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(answer: Answer) -> Page:
    """Return a page, which has no markup of data."""
    page = Page(answer.body.decode())
    assert page.problems == []
    return page


async def get(app: Any, path: str, query: str = "") -> Page:
    """Return a page that must exist."""
    answer = await visit(app, path, query=query)
    assert answer.status == 200, answer.body
    return read(answer)


async def submit(app: Any, path: str, fields: dict[str, str]) -> tuple[int, Page]:
    """Send a form; return the status and the page."""
    answer = await send_form(app, path, fields)
    return answer.status, read(answer)
