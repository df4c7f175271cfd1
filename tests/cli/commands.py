"""Runs the ``fleethook`` command, in a process of its own or in this one."""

import contextlib
import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from unittest import mock

from fleethook.cli.command_line import run_command as run_words
from tests.serving import ROOT
from tests.waiting import NET


class Result(NamedTuple):
    """The exit code and the output of a command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


@contextlib.contextmanager
def keep_logging() -> Iterator[None]:
    """Restore the handlers and the level of logs, which a command configures for its process."""
    handlers, level = [*logging.root.handlers], logging.root.level
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)


def invoke(words: Sequence[str], *, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Result:
    """Run the command in this process."""
    # Like the streams of a process, these have a buffer of bytes.
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO((stdin or "").encode()), encoding="utf-8")
    code: object = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", given),
        mock.patch.dict(os.environ, env or {}),
        keep_logging(),
    ):
        try:
            run_words(words)
        except SystemExit as left:
            code = left.code
    texts = []
    for stream in (out, err):
        stream.flush()
        assert isinstance(stream.buffer, io.BytesIO)
        texts.append(stream.buffer.getvalue().decode())
    return Result(int(str(code)), *texts)


def run_command(*arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command from the root of the repository, with additional environment variables."""
    return subprocess.run(
        [sys.executable, "-m", "fleethook", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=NET,
        check=False,
        input=stdin,
        env={**os.environ, **environment},
    )
