"""Checks long expressions in a separate process: ``python -m app.dispatch.cel.check_process``.

cel-cpp holds Python's global interpreter lock during a check, for 1 s if an expression has 90,000 characters. The
parent process (`app.control.child_process`) sends an expression. The answer starts with one byte, followed by a text:

- ``+`` and the checked expression, whose type is bool
- ``-`` and the checked expression, whose type is another one
- ``!`` and the error
"""

from typing import Final

from app.control.child_process import answer_questions
from app.dispatch.cel.environment import check
from app.dispatch.cel.errors import ExpressionError

BOOL: Final = b"+"
OTHER_TYPE: Final = b"-"
INVALID: Final = b"!"


def answer(expression: str) -> bytes:
    """Check an expression and return the answer for the parent process."""
    try:
        is_bool, checked = check(expression)
    except ExpressionError as error:
        return INVALID + str(error).encode()
    return (BOOL if is_bool else OTHER_TYPE) + checked


def main() -> None:
    """Answer expressions from standard input until its end."""
    answer_questions(lambda content: answer(content.decode()))


if __name__ == "__main__":
    main()
