"""Finds entries that differ only in the values that they set, and writes their common pattern with marks for values.

An overrider may have a separate entry for each node pool. Node pools whose entries have the same pattern share a plan,
which has marks in place of the values. Without a common pattern, each node pool would need its own plan.

A mark replaces only a value that differs from every other value that a step may compare it with. A value that occurs
anywhere else in the template or in the entries is therefore part of the pattern. Equal values have equal marks.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.overrider.entries.entry_selection import EntrySelection
from fleethook.model.formats.labels import label_value_problem
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import NODEPOOL_TOKEN, TWEAK_POOL_TOKEN
from fleethook.workload_schema.value_marks import (
    MAX_NUMBERS,
    NO_VALUES,
    REPLICAS_MARK,
    SMALLEST_MARK,
    EntryValues,
    entry_mark,
    number_mark,
    text_mark,
)

Change = Callable[[str | int], str | int]

# Values of these characters need no escaping in JSON, so they can replace a mark inside a JSON text.
_CLAIM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_TEXT: Final = re.compile(r"[A-Za-z0-9 !#$%&()*+,./:;<=>?@^_|~-]+")
# The paths of patches that set such values.
_TEXT_PATH: Final = re.compile(
    r".*/(env/[^/]+/value|args/[^/]+|(annotations|labels|nodeSelector)/[^/]+|(containers|initContainers)/[^/]+/image)"
)
_LABEL_PATH: Final = re.compile(r".*/(labels|nodeSelector)/[^/]+")


def map_values(entry: Mapping[str, JSON], change: Change) -> JSONObject:
    """Return an entry with other values.

    Args:
        entry: The entry, which may have any shape.
        change: Called with each value, always in the same order. Returns its replacement.
    """
    made = dict(entry)
    if isinstance(entry.get("items"), list):
        made["items"] = [_map_item(item, change) for item in entry["items"]]
    if isinstance(entry.get("patches"), list):
        made["patches"] = [_map_patch(patch, change) for patch in entry["patches"]]
    return made


def _map_item(item: JSON, change: Change) -> JSON:
    if not isinstance(item, dict):
        return item
    return {name: _MAPPED[name](value, change) if name in _MAPPED else value for name, value in item.items()}


def _map_patch(patch: JSON, change: Change) -> JSON:
    path = as_object(patch).get("path")
    if not isinstance(path, str) or "value" not in patch or _TEXT_PATH.fullmatch(path) is None:
        return patch
    # A mark would hide a value that kube-apiserver refuses from the check of the rendered workload.
    if _LABEL_PATH.fullmatch(path) and not _is_label_value(patch["value"]):
        return patch
    return {**patch, "value": _map_text(patch["value"], change)}


def _is_label_value(value: JSON) -> bool:
    return isinstance(value, str) and label_value_problem(value) is None


def _map_image(value: JSON, change: Change) -> JSON:
    claim = as_object(value).get("imageClaim")
    if not isinstance(claim, str) or _CLAIM.fullmatch(claim.replace(NODEPOOL_TOKEN, "x")) is None:
        return value
    return {**value, "imageClaim": change(claim)}


def _map_replicas(value: JSON, change: Change) -> JSON:
    return change(value) if type(value) is int and 0 <= value < SMALLEST_MARK else value


def _map_env(value: JSON, change: Change) -> JSON:
    variables = as_object(value).get("env")
    if not isinstance(variables, list):
        return value
    made = [
        {**one, "value": _map_text(one["value"], change)} if isinstance(one, dict) and "value" in one else one
        for one in variables
    ]
    return {**value, "env": made}


def _map_args(value: JSON, change: Change) -> JSON:
    args = as_object(value).get("args")
    return {**value, "args": [_map_text(one, change) for one in args]} if isinstance(args, list) else value


def _map_annotations(value: JSON, change: Change) -> JSON:
    return {name: _map_text(one, change) for name, one in value.items()} if isinstance(value, dict) else value


def _map_labels(value: JSON, change: Change) -> JSON:
    if not isinstance(value, dict):
        return value
    return {name: _map_text(one, change) if _is_label_value(one) else one for name, one in value.items()}


def _map_text(value: JSON, change: Change) -> JSON:
    if not isinstance(value, str) or _TEXT.fullmatch(value.replace(NODEPOOL_TOKEN, "x")) is None:
        return value
    return change(value)


_MAPPED: Final[Mapping[str, Callable[[JSON, Change], JSON]]] = {
    "image": _map_image,
    "replicas": _map_replicas,
    "initialReplicas": _map_replicas,
    "env": _map_env,
    "args": _map_args,
    "annotations": _map_annotations,
    "labels": _map_labels,
    "nodeSelector": _map_labels,
}


_DIGITS: Final = re.compile(r"\d+")
# Digits of the largest number of replicas, 2^31 - 1.
_MAX_DIGITS: Final = 10
# 1 is the default of replicas, and 0 the zero value.
_SMALLEST_NUMBER: Final = 2
# The search for values fills the name of each pool into texts with tokens, up to this length.
_MAX_FILLED_LENGTH: Final = 50_000
# The search for each value covers the whole template. If a pool has more values, its entries get no pattern.
_MAX_VALUES: Final = 64


class AppliedEntry(NamedTuple):
    """An entry that applies to a node pool."""

    field: str
    """The path of the entry, such as ``entries[0]``."""
    entry: Mapping[str, JSON]


class Applied(NamedTuple):
    """The entries that apply to a node pool."""

    key: Hashable
    """Equal for node pools whose entries differ only in `values`."""
    numbers: tuple[int, ...]
    """The indexes of the entries in the overrider."""
    slots: tuple[tuple["_Slot", ...] | None, ...] = ()
    """The slots of each entry, None for an entry without marks. Empty if no entry has marks."""
    values: EntryValues = NO_VALUES


class _Shape(NamedTuple):
    """An entry without its values."""

    number: int
    """Equal for entries that differ only in their values."""
    values: tuple[str | int, ...]
    text: str
    """The entry without its values, as JSON."""
    numbers: frozenset[int]
    """The numbers in `text`."""


_Slot = tuple[str, str | int]
"""A value in a pattern: the type of its mark or ``literal``, and the mark or the value."""


class EntryPatterns:
    """Finds the pattern of the entries that apply to a node pool."""

    def __init__(self, entries: JSON, *, template: JSON) -> None:
        """Index the entries.

        Args:
            entries: The entries of an overrider. They may have any shape.
            template: The parts of the subject that may contain images or replicas, except the patches of node pools.
        """
        self._entries: Final[list[JSON]] = entries if isinstance(entries, list) else []
        self._selection: Final = EntrySelection(entries)
        every = [entry for number, entry in enumerate(self._entries) if self._selection.is_shared(number)]
        self._text: Final = _encode((template, every))
        self._has_token: Final = _has_token(self._text)
        self._numbers: Final = _find_numbers(self._text)
        self._shapes: Final[dict[int, _Shape]] = {}
        self._known: Final[dict[str, int]] = {}

    @property
    def uses_labels(self) -> bool:
        """Whether an entry selects NodePools by their labels."""
        return self._selection.uses_labels

    def find_literal(self, pool: str, node_pool: JSONObject | None = None) -> Applied:
        """Return the entries that apply to ``pool``, without marks."""
        numbers = self._selection.applying(pool, node_pool)
        return Applied(numbers, numbers)

    def find(self, pool: str, config: JSONObject | None, node_pool: JSONObject | None = None) -> Applied:
        """Return the pattern of the entries that apply to ``pool``, and the pool's values.

        Args:
            pool: The name of the node pool. It needs no escaping in JSON.
            config: The settings of the subject for this node pool.
            node_pool: The NodePool, None if there is none or if no entry selects by labels.
        """
        numbers = self._selection.applying(pool, node_pool)
        shapes = [None if self._selection.is_shared(number) else self._find_shape(number) for number in numbers]
        own = [shape for shape in shapes if shape is not None]
        if not own or sum(len(shape.values) for shape in own) > _MAX_VALUES:
            return Applied(numbers, numbers)
        taken = self._make_slots(pool, config or {}, own)
        slots = tuple(None if shape is None else taken.take(len(shape.values)) for shape in shapes)
        key = tuple(
            number if shape is None else (shape.number, written)
            for number, shape, written in zip(numbers, shapes, slots, strict=True)
        )
        return Applied(key, numbers, slots, EntryValues(numbers, tuple(taken.texts), tuple(taken.numbers)))

    def entries_of(self, applied: Applied) -> tuple[AppliedEntry, ...]:
        """Return the entries of ``applied``, with marks in place of their values."""
        found: list[AppliedEntry] = []
        slots = applied.slots or (None,) * len(applied.numbers)
        for position, (number, written) in enumerate(zip(applied.numbers, slots, strict=True)):
            entry = as_object(self._entries[number])
            if written is None:
                found.append(AppliedEntry(f"entries[{number}]", entry))
            else:
                marked = map_values(entry, partial(_take_next, iter([value for _, value in written])))
                found.append(AppliedEntry(f"entries[{entry_mark(position)}]", marked))
        return tuple(found)

    def _find_shape(self, number: int) -> _Shape:
        """Return the shape of an entry that selects node pools by name."""
        shape = self._shapes.get(number)
        if shape is None:
            entry = {name: value for name, value in as_object(self._entries[number]).items() if name != "pools"}
            values: list[str | int] = []
            text = _encode(map_values(entry, partial(_collect, values)))
            shape = _Shape(self._known.setdefault(text, len(self._known)), tuple(values), text, _find_numbers(text))
            self._shapes[number] = shape
        return shape

    def _make_slots(self, pool: str, config: JSONObject, shapes: list[_Shape]) -> "_Slots":
        patch = _encode(config["patch"]) if config.get("patch") else ""
        texts = [text for text in (patch, *(shape.text for shape in shapes)) if text]
        too_long = self._has_token and len(self._text) > _MAX_FILLED_LENGTH
        too_long = too_long or any(len(text) > _MAX_FILLED_LENGTH and _has_token(text) for text in texts)
        shared = _fill_name(self._text, pool) if self._has_token and not too_long else self._text
        known = (shared, *(_fill_name(text, pool) for text in texts))
        numbers = [self._numbers, _find_numbers(patch), *(shape.numbers for shape in shapes)]
        slots = _Slots()
        for shape in shapes:
            for value in shape.values:
                if isinstance(value, int):
                    slots.add_number(value, numbers, config.get("replicas"))
                else:
                    slots.add_text(value.replace(NODEPOOL_TOKEN, pool), known, literal=too_long)
        return slots


class _Slots:
    """The slots of a node pool's entries, in the order of the entries."""

    def __init__(self) -> None:
        self.texts: Final[list[str]] = []
        self.numbers: Final[list[int]] = []
        self._slots: Final[list[_Slot]] = []
        self._taken = 0

    def add_text(self, value: str, known: Sequence[str], *, literal: bool) -> None:
        # The path of a patch may select an element by this value: `[image=…]`.
        quoted, named = f'"{value}"', f"={value}"
        escaped = named.replace("~", "~0").replace("/", "~1")
        if literal or any(quoted in text or named in text or escaped in text for text in known):
            self._slots.append(("literal", value))
            return
        if value not in self.texts:
            self.texts.append(value)
        self._slots.append(("text", text_mark(self.texts.index(value))))

    def add_number(self, value: int, known: Sequence[frozenset[int]], replicas: JSON) -> None:
        if value == replicas:
            self._slots.append(("replicas", REPLICAS_MARK))
            return
        if (
            value < _SMALLEST_NUMBER
            or any(value in each for each in known)
            or (value not in self.numbers and len(self.numbers) == MAX_NUMBERS)
        ):
            self._slots.append(("literal", value))
            return
        if value not in self.numbers:
            self.numbers.append(value)
        self._slots.append(("number", number_mark(self.numbers.index(value))))

    def take(self, count: int) -> tuple[_Slot, ...]:
        """Return the next ``count`` slots."""
        self._taken += count
        return tuple(self._slots[self._taken - count : self._taken])


def _collect(values: list[str | int], value: str | int) -> str:
    """Add a value to ``values``; return the name of its type, which replaces it in the pattern."""
    values.append(value)
    return type(value).__name__


def _take_next(values: Iterator[str | int], _: str | int) -> str | int:
    return next(values)


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _find_numbers(text: str) -> frozenset[int]:
    # A longer number cannot be a number of replicas, and Python refuses to parse thousands of digits.
    found = (one for one in set(_DIGITS.findall(text)) if len(one) <= _MAX_DIGITS)
    return frozenset(map(int, found)) if text else frozenset()


def _has_token(text: str) -> bool:
    return NODEPOOL_TOKEN in text or TWEAK_POOL_TOKEN in text


def _fill_name(text: str, pool: str) -> str:
    return text.replace(NODEPOOL_TOKEN, pool).replace(TWEAK_POOL_TOKEN, pool) if _has_token(text) else text
