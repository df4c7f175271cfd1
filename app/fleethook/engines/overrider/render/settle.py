"""Keeps the defaults and the order of a stored workload where a render lays a part of it anew.

kube-apiserver adds the same defaults to the same values again, so removing them would be a write without an effect.
"""

from functools import lru_cache
from typing import Final

from fleethook.engines.overrider.render.keyed_elements import index_elements, merge_elements
from fleethook.engines.overrider.render.overlay import DEFAULT_STRATEGY, EXCLUSIVE, covers, differs_by_defaults
from fleethook.engines.overrider.schema.defaults import find_default
from fleethook.engines.overrider.schema.go_structs import ZEROS, load_structs, struct_name
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD, MergeSchema

PULL_POLICIES: Final = ("imagePullPolicy", "pullPolicy")
"""The members whose default depends on an image."""
_NO_SCHEMA: Final = MergeSchema()
_MISSING: Final = object()
_Tokens = tuple[str, ...]


def settle(workload: JSONObject, before: JSONObject, rendered: JSONObject, *, target: JSON) -> JSONObject:
    """Return ``rendered`` with the defaults that ``workload`` has, and with its order of list elements.

    Args:
        workload: The workload of the request.
        before: The workload without overrides.
        rendered: The rendered workload.
        target: The rendered form of the template, if the last render had the same one, otherwise None. Further members
            of the objects that it added are then defaults, or other clients have added them since.
    """
    return _Settling(target is not None).objects(workload, before, rendered, target, WORKLOAD, ())


class _Settling:
    def __init__(self, is_same: bool) -> None:  # noqa: FBT001 - see settle
        self._is_same: Final = is_same

    def objects(
        self, stored: JSONObject, before: JSON, made: JSONObject, target: JSON, schema: MergeSchema, tokens: _Tokens
    ) -> JSONObject:
        if stored is made:
            return made
        result: JSONObject | None = None
        known, wanted = (as_object(one) for one in (before, target))
        for name, value in made.items():
            present = stored.get(name, _MISSING)
            if present is value or present is _MISSING:
                continue
            child = schema.fields.get(name, _NO_SCHEMA)
            new = self._value(present, known.get(name, _MISSING), value, wanted.get(name), child, (*tokens, name))
            if new is not value:
                result = dict(made) if result is None else result
                result[name] = new
        for name, value in stored.items():
            if name not in made and self._keeps(name, value, before, made, schema, tokens):
                result = dict(made) if result is None else result
                result[name] = value
        if result is None:
            return made
        return stored if result == stored else result

    def _keeps(
        self, name: str, value: JSON, before: JSON, made: JSONObject, schema: MergeSchema, tokens: _Tokens
    ) -> bool:
        """Return whether a member of the stored object stays although the rendered one lacks it."""
        if schema.retain_keys:
            chooses = (
                len(made) > len(schema.identity)
                if schema.identity
                else made.get("type", DEFAULT_STRATEGY) != DEFAULT_STRATEGY
            )
            if chooses:
                return False
        if any(other in made for other in EXCLUSIVE.get(name, ())):
            return False
        if value is None or (self._is_same and before is _MISSING):
            return True
        if name in PULL_POLICIES:
            return bool(value == find_pull_policy(made))
        default = find_default((*tokens, name))
        if default is None:
            default = _find_zero((*tokens, name))
        return default is not _MISSING and type(default) is type(value) and bool(default == value)

    def _value(
        self, stored: JSON, before: JSON, made: JSON, target: JSON, schema: MergeSchema, tokens: _Tokens
    ) -> JSON:
        if type(stored) is dict and type(made) is dict:
            return self.objects(stored, before, made, target, schema, tokens)
        if type(stored) is not list or type(made) is not list:
            return made
        present, wanted = index_elements(stored, schema), index_elements(made, schema)
        if present is None or wanted is None:
            is_kept = self._is_same and before is _MISSING and covers(stored, made)
            return stored if is_kept or differs_by_defaults(stored, made) else made
        known, ordered = (index_elements(one, schema) or {} for one in (before, target))
        merged = {
            identity: element
            if (there := present.get(identity)) is None
            else self.objects(
                there, known.get(identity, _MISSING), element, ordered.get(identity), schema, (*tokens, "*")
            )
            for identity, element in wanted.items()
        }
        return merge_elements(stored if ordered else made, present if ordered else wanted, merged, list(ordered))


_ZEROS: Final[dict[str, JSON]] = {**ZEROS, "Quantity": "0"}


@lru_cache(4096)
def _find_zero(tokens: _Tokens) -> JSON:
    """Return the zero value with which Go encodes an absent member, _MISSING if it omits it."""
    for root in ("apps.v1.Deployment", "apps.v1.StatefulSet"):
        struct: str | None = root
        for name in (one for one in tokens[:-1] if one != "*"):
            field = load_structs().get(struct or "", {}).get(name)
            struct = struct_name(field.type) if field else None
        if (last := load_structs().get(struct or "", {}).get(tokens[-1])) is not None:
            if last.type in load_structs():
                return {}
            printed = last.omit == "" or last.type == "Quantity"
            return _ZEROS.get(last.type, None if last.type.startswith("[]") else _MISSING) if printed else _MISSING
    return _MISSING


def find_pull_policy(owner: JSON) -> str:
    """Return the default pull policy of a container, or of the image of a volume."""
    image = as_object(owner).get("image") or as_object(owner).get("reference")
    name, _, digest = str(image or ":").partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest or not image) else "IfNotPresent"
