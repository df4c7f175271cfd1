"""Checks long expressions in a process of its own: ``python -m app.dispatch.cel.compiling``.

cel-cpp holds Python's interpreter lock while it checks an expression, 1 s for one of 90,000 characters. The parent
writes expressions to standard input and reads the answers from standard output, one after the other; each is a length
(4 bytes, big endian) and as many bytes. An answer is ``+`` or ``-`` (whether its type is bool) and the checked
expression, or ``!`` and what is wrong with it. The process ends when its input ends.
"""

import contextlib
import os
import sys
from typing import IO, Final

from app.dispatch.cel.environment import check
from app.dispatch.cel.errors import ExpressionError

BOOL: Final = b"+"
OTHER_TYPE: Final = b"-"
WRONG: Final = b"!"
_LENGTH: Final = 4
# Requests come first where processors are few.
_NICENESS: Final = 5


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write a message; raises OSError."""
    stream.write(len(content).to_bytes(_LENGTH, "big") + content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next message, None where the stream ends; raises OSError."""
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "big")
    content = stream.read(size)
    return content if len(head) == _LENGTH and len(content) == size else None


def answer(expression: str) -> bytes:
    """Return the answer to an expression."""
    try:
        is_bool, checked = check(expression)
    except ExpressionError as error:
        return WRONG + str(error).encode()
    return (BOOL if is_bool else OTHER_TYPE) + checked


def main() -> None:
    """Answer until the input ends."""
    # Libraries may write to standard output, which belongs to the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    while (content := read_frame(sys.stdin.buffer)) is not None:
        write_frame(answers, answer(content.decode()))


if __name__ == "__main__":
    main()
