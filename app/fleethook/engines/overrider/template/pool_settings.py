"""The settings that a YurtAppSet v1alpha1 has for a node pool, compared with those of other pools."""

from typing import Final

import msgspec

from fleethook.engines.overrider.entries.value_marks import POOL_MARK, REPLICAS_MARK, mark_name
from fleethook.model.json import JSON, JSONObject

_PLACEMENT: Final = ("nodeSelectorTerm", "tolerations")
_MARKED: Final = frozenset({"name", *_PLACEMENT})
_ENCODED_MARK: Final = msgspec.json.encode(POOL_MARK)


def encode_settings(config: JSONObject | None, taints: JSON, pool: str) -> bytes:
    """Return the settings of a pool as JSON, equal for pools whose `mark_settings` are equal.

    It usually replaces the name in the JSON, which is faster than marking the settings of each pool.
    """
    if config is None:
        return msgspec.json.encode((None, taints))
    placing = msgspec.json.encode({one: config[one] for one in _PLACEMENT if one in config})
    name = msgspec.json.encode(pool)
    # Only whole texts are replaced: no names of members, and no text that ends in a quote and the name.
    if b"%b:" % name in placing or b"\\" + name in placing:
        placing = msgspec.json.encode({one: mark_name(config[one], pool) for one in _PLACEMENT if one in config})
    else:
        placing = placing.replace(name, _ENCODED_MARK)
    others: JSONObject = {one: value for one, value in config.items() if one not in _MARKED}
    if others.get("replicas") is not None:
        others["replicas"] = REPLICAS_MARK
    return msgspec.json.encode((others, taints)) + placing


def mark_settings(config: JSONObject | None) -> JSONObject | None:
    """Return the settings of a pool with marks in place of its own values."""
    if config is None:
        return None
    placing: JSONObject = {one: mark_name(config[one], config["name"]) for one in _PLACEMENT if one in config}
    marked = {**config, **placing, "name": POOL_MARK}
    return marked if config.get("replicas") is None else {**marked, "replicas": REPLICAS_MARK}
