"""Checks long expressions in a process of its own: ``python -m app.dispatch.cel.check_process``.

cel-cpp holds Python's interpreter lock while it checks an expression, 1 s for one of 90,000 characters. The parent
(`app.control.child`) asks with an expression. An answer is ``+`` or ``-`` (whether its type is bool) and the checked
expression, or ``!`` and its problem.
"""

from typing import Final

from app.control.child import answer_questions
from app.dispatch.cel.environment import check
from app.dispatch.cel.errors import ExpressionError

BOOL: Final = b"+"
OTHER_TYPE: Final = b"-"
INVALID: Final = b"!"


def answer(expression: str) -> bytes:
    """Return the answer to an expression."""
    try:
        is_bool, checked = check(expression)
    except ExpressionError as error:
        return INVALID + str(error).encode()
    return (BOOL if is_bool else OTHER_TYPE) + checked


def main() -> None:
    """Answer until the input ends."""
    answer_questions(lambda content: answer(content.decode()))


if __name__ == "__main__":
    main()
