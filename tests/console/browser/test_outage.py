"""An open page while its console or its source is gone, and after it is back."""

import contextlib
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import NEW_IMAGE, pool, yurt_app_set
from tests.serving import started

GONE = "The console does not answer since"


@pytest.fixture
def restart(tmp_path: Path) -> Callable[..., Any]:
    """A function that starts a console on the same port again; a context that ends it."""
    (tmp_path / "now.yaml").write_text(yaml.safe_dump_all([yurt_app_set(pools=[pool("a"), pool("b")]), NEW_IMAGE]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    @contextlib.contextmanager
    def start() -> Iterator[str]:
        command = [sys.executable, "-m", "fleethook", "console", "--no-token", "-f", str(tmp_path), "--port", str(port)]
        with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/"):
            yield f"http://127.0.0.1:{port}"

    return start


def test_an_open_page_says_that_its_console_does_not_answer(restart: Any, open_page: Any) -> None:
    with restart() as console:
        page = open_page(console + "/overriders")
    mark = page.get_by_role("alert").filter(has_text=GONE)
    mark.wait_for()
    with restart():
        mark.wait_for(state="hidden")


def test_an_open_page_says_that_its_source_cannot_be_read(restart: Any, open_page: Any, tmp_path: Path) -> None:
    source = tmp_path / "now.yaml"
    with restart() as console:
        page = open_page(console + "/overriders")
        text = source.read_text()
        source.write_text("kind: [")
        mark = page.get_by_role("alert").filter(has_text="This page shows old data").filter(has_text="now.yaml:")
        mark.wait_for()
        source.write_text(text)
        mark.wait_for(state="hidden")
