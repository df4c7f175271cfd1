"""What ``transformMap`` and ``transformMapEntry`` build their results with: cel-cpp has no code for it."""

from collections.abc import Mapping
from typing import Any, Final

from app.dispatch.cel.functions import Function, private_name
from app.dispatch.cel.library.quoting import quoted
from app.dispatch.cel.run import CURRENT
from app.dispatch.cel.weights import weight

# cel-cpp hands over what there is so far as a copy, in every step: see `guards`.
_CONVERSION: Final = 4


def _insert(entries: Mapping[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    CURRENT.get().charge(work=_CONVERSION * (weight(entries) + weight(value)))
    if key in entries:
        raise ValueError(f"insert failed: key {quoted(str(key))} already exists")
    return {**entries, key: value}


def _insert_all(entries: Mapping[Any, Any], more: Mapping[Any, Any]) -> dict[Any, Any]:
    CURRENT.get().charge(work=_CONVERSION * (weight(entries) + weight(more)))
    for key in more:
        if key in entries:
            raise ValueError(f"insert failed: key {quoted(str(key))} already exists")
    return {**entries, **more}


# As cel-cpp declares them.
NAME: Final = private_name("cel.@mapInsert")
OVERLOADS: Final = ("@mapInsert_map_key_value", "@mapInsert_map_map")
FUNCTIONS: Final = (
    *(
        Function("cel.@mapInsert", ("map<dyn,dyn>", key, "dyn"), "map<dyn,dyn>", _insert, member=False)
        for key in ("string", "int", "uint", "bool")
    ),
    Function("cel.@mapInsert", ("map<dyn,dyn>", "map<dyn,dyn>"), "map<dyn,dyn>", _insert_all, member=False),
)
