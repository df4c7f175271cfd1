"""Runs the commands of the README and of docs/ in order. test_pages.py starts this file in a network of its own.

To see the transcript: ``unshare -rn .venv/bin/python -m pytest -n 0 -s tests/documentation/pages.py``
"""

import urllib.request
from pathlib import Path

from tests.documentation.blocks import list_transcripts
from tests.documentation.own_network import enable_loopback
from tests.documentation.shell import Shell, open_shell
from tests.waiting import NET, wait_for

ADDRESS = r"fleethook console: (http://127\.0\.0\.1:9444/)(login\?token=\S+)"


class Browser:
    """A browser that has opened the printed address of the console of `make run`."""

    def __init__(self, shell: Shell) -> None:
        self._console, token = shell.find_printed(ADDRESS)[-1]
        session = urllib.request.HTTPCookieProcessor()
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), session)
        self.read(token)

    def read(self, path: str) -> str:
        with self._opener.open(self._console + path, timeout=NET) as answer:
            text: str = answer.read().decode()
            return text

    def shows_the_demo(self) -> bool:
        """Return whether the console has read the recordings and the metrics of its server."""
        reviews, overview = self.read("reviews"), self.read("")
        return "yurtappset-demo-hangzhou" in reviews and "cut off" not in reviews and "last sample" in overview


def test_a_reader_runs_all_pages_in_one_clone(tmp_path: Path) -> None:
    enable_loopback()
    with open_shell(tmp_path) as shell:
        for blocks in list_transcripts():
            shell.run_page(blocks)
            if blocks[0].page.name == "README.md":
                wait_for(Browser(shell).shows_the_demo, what="the console shows the review and the metrics")
        shell.stop_servers()
