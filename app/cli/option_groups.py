"""Groups of options that several commands have, each declared once as a NamedTuple."""

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each NamedTuple parameter of a command by one option for each member.

    The command still gets the tuple, made of the options' values.
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups = {one.name: one.annotation for one in parameters if hasattr(one.annotation, "_field_defaults")}
    options: list[inspect.Parameter] = []
    for one in parameters:
        keyword = one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        options += _members(groups[one.name]) if one.name in groups else [keyword]

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{member: given.pop(member) for member in group._fields})
        command(**given)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in options}
    return run


def _members(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=group._field_defaults[name], annotation=hints[name])
        for name in group._fields
    ]
