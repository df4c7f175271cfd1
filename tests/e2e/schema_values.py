"""Values that a CustomResourceDefinition permits, drawn at random from its schema."""

import re
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

JSONObject = dict[str, Any]

_CANDIDATES: Final = (
    "a", "Ready", "b", "example.org/a", "https://example.org/a", "oci://example.org/a", "10.0.0.1", "1h", "1m", "10s", "0 0 * * *",
    "1Gi", "1", "v1.2.3", "1.2.3", "a@sha256:" + "0" * 64, "sha256:" + "0" * 64, "0" * 64, "main@sha1:" + "0" * 40, "http", "TCP", "default",
    "a/b", "aws:///a/b", "abc-123", "secret://a/b", "gs://a/b", "*", "a.example.org", "00:00:00:00:00:01", "0" * 40, "a" * 64, "1.0", "8080",
    "ami-0123456789", "subnet-0123456789", "sg-0123456789", "d7a4f8d2-3c1b-4b6e-9a5f-2f6f5f7f8f9f", "50%", "kueue.x-k8s.io/manager",
    "ssh://git@example.org/a", "aa", "aaa", "abcdefgh", "1s", "24h", "10Gi", "0.5", "100m",
)  # fmt: skip
"""Strings of which one fits a pattern or format."""
_CONDITION_TYPES: Final = ("Ready", "Available", "Failed", "Progressing")
_FORMATS: Final = {
    "date": "2026-01-02", "uuid": "d7a4f8d2-3c1b-4b6e-9a5f-2f6f5f7f8f9f", "uri": "https://example.org/a", "byte": "YQ==",
    "ipv4": "10.0.0.1", "ipv6": "fd00::1", "hostname": "a.example.org", "email": "a@example.org", "duration": "1h",
}  # fmt: skip


class Values:
    """Draws values.

    Attributes:
        draw: The source of randomness.
        names: Members that most of the values have.
        words: Strings to prefer where the schema permits them.
        share: The probability of all other optional members.
    """

    def __init__(self, draw: Random, names: Iterable[str] = (), words: Iterable[str] = (), share: float = 0.5) -> None:
        self.draw = draw
        self.names = frozenset(names)
        self.words = tuple(words)
        self.share = share

    def value(self, schema: JSONObject, name: str = "", depth: int = 0) -> Any:
        """Return a value that a schema permits, without regard to its rules in CEL."""
        if "enum" in schema:
            return self.draw.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self.draw.choice([1, "1"]) if "pattern" in schema else self.draw.randint(1, 3)
        kind = schema.get("type") or ("object" if "properties" in schema else "")
        draws: dict[str, Callable[[], Any]] = {
            "object": lambda: self._object(schema, depth),
            "array": lambda: self._list(schema, name, depth),
            "string": lambda: self._string(schema, name),
            "integer": lambda: self._number(schema),
            "number": lambda: self._number(schema),
            "boolean": lambda: self.draw.random() < 0.5,
        }
        return draws[kind]() if kind in draws else {}

    def _object(self, schema: JSONObject, depth: int) -> JSONObject:
        properties = schema.get("properties", {})
        branch = self.draw.choice(schema.get("oneOf") or schema.get("anyOf") or [{}])
        others = {name for one in schema.get("oneOf", []) for name in one.get("required", [])}
        needed = {*schema.get("required", []), *branch.get("required", [])}
        excluded = (others - needed) | set((branch.get("not") or {}).get("required", []))
        chosen = [
            name
            for name, one in properties.items()
            if name in needed or (name not in excluded and self.draw.random() < self._chance(name, one, depth))
        ]
        missing = [name for name in properties if name not in chosen and name not in excluded]
        while len(chosen) < schema.get("minProperties", 0) and missing:
            chosen.append(missing.pop(self.draw.randrange(len(missing))))
        while len(chosen) > schema.get("maxProperties", 99) and set(chosen) - needed:
            chosen.remove(self.draw.choice(sorted(set(chosen) - needed)))
        made = {
            name: self.value(properties[name] | branch.get("properties", {}).get(name, {}), name, depth + 1)
            for name in chosen
        }
        if made.keys() >= {"type", "status"} and "enum" not in properties["type"]:
            made["type"] = self.draw.choice([*_CONDITION_TYPES, *(one for one in self.words if one[:1].isupper())][:8])
            if properties["status"].get("type") == "string":
                made["status"] = self.draw.choice(["True", "False", "Unknown"])
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and depth < 12:
            made |= {key: self.value(more, key, depth + 1) for key in self.draw.sample("ab", self.draw.randint(0, 2))}
        return made

    def _chance(self, name: str, schema: JSONObject, depth: int) -> float:
        """Return the probability of an optional member."""
        if name in self.names or (depth < 6 and _mentions(schema, self.names)):
            return 0.8
        return self.share if depth < 4 else self.share / 2

    def _list(self, schema: JSONObject, name: str, depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        count = self.draw.randint(least, min(schema.get("maxItems", 99), least + 2))
        made = [self.value(schema.get("items", {}), name, depth + 1) for _ in range(count)]
        keys = schema.get("x-kubernetes-list-map-keys")
        unique = {str([one.get(key) for key in keys] if keys and isinstance(one, dict) else one): one for one in made}
        is_unique = (
            schema.get("x-kubernetes-list-type") in ("map", "set") or schema.get("uniqueItems") or name == "conditions"
        )
        return [*unique.values()] if is_unique else made

    def _string(self, schema: JSONObject, name: str) -> str:
        if schema.get("format") == "date-time":
            return f"2026-01-{self.draw.randint(10, 28)}T00:00:00Z"
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        if name == "message" and schema.get("maxLength", 0) > 20_000 and self.draw.random() < 0.2:
            return "x" * 20_000
        words = self.words if self.words and self.draw.random() < 0.7 else ()
        candidates = [*self.draw.sample(words, len(words)), *_CANDIDATES]
        if "pattern" not in schema and not words:
            self.draw.shuffle(candidates)
        least, most = schema.get("minLength", 0), schema.get("maxLength", 1000)
        return next((one for one in candidates if least <= len(one) <= most and fits(schema, one)), "a" * max(1, least))

    def _number(self, schema: JSONObject) -> int:
        least = int(schema.get("minimum", 0)) + bool(schema.get("exclusiveMinimum"))
        most = int(schema.get("maximum", least + 4))
        if "maximum" in schema and self.draw.random() < 0.2:
            return most
        value = self.draw.randint(least, max(least, min(most, least + 4)))
        return value - value % int(schema.get("multipleOf", 1))


def fits(schema: JSONObject, text: str) -> bool:
    """Return whether a string matches the patterns of a schema."""
    patterns = [one["pattern"] for one in (schema, *schema.get("allOf", [])) if "pattern" in one]
    try:
        return all(re.search(pattern, text) for pattern in patterns)
    except re.error:
        return True  # a pattern of Go


def _mentions(schema: JSONObject, names: frozenset[str], depth: int = 0) -> bool:
    """Return whether one of the names is a member at any depth."""
    if depth > 6 or not names:
        return False
    properties = schema.get("properties", {})
    inner = [*properties.values(), *([schema["items"]] if isinstance(schema.get("items"), dict) else [])]
    return bool(names & properties.keys()) or any(_mentions(one, names, depth + 1) for one in inner)
