"""Calls cel-cpp for functions that are not reimplemented here: times, formatting, and regular expressions."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from cel_expr_python import cel

from app.dispatch.cel.error_texts import translate_evaluation_error
from app.dispatch.cel.values import Uint

_EXTENSIONS: Final = "name: native\nextensions:\n- name: strings\n  version: 2\n- name: optional\n- name: regex\n"
_NAMES: Final = "abcd"


@cache
def _compile(expression: str) -> cel.Expression:
    environment = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS), variables=dict.fromkeys(_NAMES, cel.Type.DYN)
    )
    return environment.compile(expression)


def evaluate(expression: str, *arguments: Any) -> cel.Value:
    """Evaluate an expression in cel-cpp.

    Args:
        expression: An expression over the variables ``a``, ``b``, ...
        arguments: The values of these variables. cel-cpp receives timestamps and durations as strings.

    Raises:
        ValueError: The evaluation ended in an error; the text is cel-go's.
    """
    given = map(_encode_time, arguments)
    try:
        value = _compile(expression).eval(data=dict(zip(_NAMES, given, strict=False)))
    except UnicodeEncodeError:
        raise ValueError("a text is not valid UTF-8") from None
    except RuntimeError as error:
        raise ValueError(translate_evaluation_error(str(error))) from None
    if value.type() == cel.Type.ERROR:
        raise ValueError(translate_evaluation_error(str(value.value())))
    return value


def _encode_time(value: Any) -> Any:
    """Return timestamps and durations as strings, because cel-cpp accepts no other form from Python."""
    if isinstance(value, datetime):
        return value.isoformat()
    return f"{value // timedelta(microseconds=1)}us" if isinstance(value, timedelta) else value


def delegate(expression: str) -> Callable[..., Any]:
    """Return a function that evaluates an expression over its arguments ``a``, ``b``, ... in cel-cpp."""

    def call(*arguments: Any) -> Any:
        value = evaluate(expression, *arguments)
        plain = value.value()
        return Uint(plain) if value.type() == cel.Type.UINT else plain

    return call
