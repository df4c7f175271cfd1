"""Functions that expressions call on the way: each counts the work that comes next and says whether to go on.

``counting`` puts the calls into expressions. They answer False when the budget is used up, and no error: cel-cpp
absorbs errors in ``||``, ``&&`` and ``@not_strictly_false``.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cel_expr_python import cel

from app.dispatch.cel.functions import KINDS, private_name
from app.dispatch.cel.reads import Path
from app.dispatch.cel.run import CURRENT, Unknown, cost_of_text
from app.dispatch.cel.weights import weight

# What it takes to call one of these functions from cel-cpp.
_CALL: Final = 4
# cel-cpp hands over lists and maps as copies, which takes three times as long as to compare them.
_CONVERSION: Final = 4
# Elements of a list that are copied in the time of one unit.
_COPIED: Final = 3

GO: Final = private_name("go")
STEP: Final = private_name("step")
SPEND: Final = private_name("spend")
TEXT: Final = private_name("text")
TEXTS: Final = private_name("texts")
PLAIN: Final = private_name("plain")
WEIGH: Final = private_name("weigh")
WEIGH_TIMES: Final = private_name("weighTimes")
WEIGH_PATH: Final = private_name("weighPath")


def path_text(path: Path) -> str:
    """Return a path as an expression can hold it."""
    return "\n".join(path)


class Guard(NamedTuple):
    """A function by the kinds of arguments that it takes."""

    name: str
    code: Callable[..., bool]
    kinds: tuple[tuple[cel.Type, ...], ...]


def _go() -> bool:
    """Return whether there is a budget left at all."""
    return not CURRENT.get().exhausted


def _step(work: int, collected: int = 0) -> bool:
    """Count one step of a loop, which is as much ``work`` as it has nodes.

    ``map`` and ``filter`` copy the elements that they have ``collected`` so far.
    """
    return CURRENT.get().spend(_CALL + work + collected // _COPIED)


def _spend(work: int) -> bool:
    """Count the elements of a list that is searched, or made."""
    return CURRENT.get().spend(_CALL + max(0, work))


def _text(length: int) -> bool:
    """Count a text that is read once."""
    return CURRENT.get().spend(_CALL + cost_of_text(length))


def _texts(length: int, part: int) -> bool:
    """Count a text that another one is looked for in (cel-go charges the same for ``contains``)."""
    return CURRENT.get().spend(_CALL + cost_of_text(length) * cost_of_text(part))


def _weigh(value: Any) -> bool:
    """Count a value whose size only shows now."""
    return CURRENT.get().spend(_CALL + _CONVERSION * weight(value))


def _weigh_times(value: Any, times: int) -> bool:
    """Count a value that is compared with each of several others."""
    return CURRENT.get().spend(_CALL + (_CONVERSION + times) * weight(value))


def _weigh_path(path: str, times: int = 1) -> bool:
    """Count a value of the request by its path, without converting it."""
    run = CURRENT.get()
    return run.spend(_CALL + times * run.weight_of(tuple(path.split("\n"))))


def _plain(is_optional: bool) -> bool:  # noqa: FBT001 - cel-cpp passes arguments by position
    """Refuse an optional where cel-expr-python does not survive one."""
    if is_optional:
        raise Unknown("an optional as a value of a map")
    return True


_INT: Final = cel.Type.INT
GUARDS: Final = (
    Guard(GO, _go, ((),)),
    Guard(STEP, _step, ((_INT,), (_INT, _INT))),
    Guard(SPEND, _spend, ((_INT,),)),
    Guard(TEXT, _text, ((_INT,),)),
    Guard(TEXTS, _texts, ((_INT, _INT),)),
    Guard(PLAIN, _plain, ((cel.Type.BOOL,),)),
    Guard(WEIGH, _weigh, tuple((kind,) for kind in KINDS)),
    Guard(WEIGH_TIMES, _weigh_times, tuple((kind, _INT) for kind in KINDS)),
    Guard(WEIGH_PATH, _weigh_path, ((cel.Type.STRING,), (cel.Type.STRING, _INT))),
)
