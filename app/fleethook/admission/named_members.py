"""Objects with those members only that a short rule names: decoding them takes a quarter of the time.

A short rule (`fleethook.admission.short_rules`) has its names as attributes and constants in its code. An object may
have other members, so its size, its members and its emptiness are unknown: code that asks for them has no result here.
"""

import keyword
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from fleethook.admission.members import encode
from fleethook.model.admission import AdmissionAPIVersion, AdmissionRequest, AdmissionReview
from fleethook.model.json import JSONObject
from fleethook.model.kcp import CLUSTER_ANNOTATION, cluster_of
from fleethook.patch.pointer import escape

MAX_NAMES: Final = 48
"""Names of the largest rule that decodes objects so: the decoder compares each member with all of them."""
_LEVELS: Final = 9
"""Levels of objects that have names; an object with more of them is decoded completely."""
_SCALAR: Final[Any] = str | int | float | bool | None
_SCALAR_TYPES: Final = frozenset({str, int, float, bool, type(None)})
_ESCAPED: Final = frozenset({'"', "\\"})
_RESERVED: Final = frozenset(keyword.kwlist)
_MAY_CHANGE: Final = ("/spec/", "/metadata/labels", "/metadata/annotations", "/data")
"""The beginnings of paths that any webhook may change."""
_FOR_SERVER: Final = ("metadata", "generateName", "annotations", CLUSTER_ANNOTATION, "os")
"""The members that log lines and the check of results read."""


class NotShortError(BaseException):
    """A call of a short rule has no result; no handler of a rule catches this."""


class Named(msgspec.Struct, gc=False):
    """A JSON object; members that it lacks are UNSET. A rule that changes it leaves a line in ``journal``."""

    attributes: ClassVar[Mapping[str, str]] = {}
    """The attributes by the names of members."""
    names: ClassVar[Mapping[str, str]] = {}
    """The names of members by their attributes."""
    journal: ClassVar[list[tuple["Named", str, Any]]] = []
    """The changes of a call: the object, the attribute and its former value."""

    def __bool__(self) -> bool:
        """Return whether the object has members; raises NotShortError if it may have others."""
        if all(getattr(self, one) is UNSET for one in self.__struct_fields__):
            raise NotShortError
        return True

    def __setattr__(self, attribute: str, value: Any) -> None:
        self.journal.append((self, attribute, getattr(self, attribute)))
        super().__setattr__(attribute, value)

    def __delattr__(self, attribute: str) -> None:
        if getattr(self, attribute) is UNSET:
            raise AttributeError(attribute)
        setattr(self, attribute, UNSET)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, _find_attribute(self, name), value)

    def __delitem__(self, name: str) -> None:
        delattr(self, _find_attribute(self, name))

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a member; set it to ``default`` first if it is missing."""
        attribute = _find_attribute(self, name)
        found = getattr(self, attribute)
        if found is UNSET:
            setattr(self, attribute, default)
            return default
        return found

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a member and return it, ``default`` if it is missing."""
        attribute = _find_attribute(self, name)
        found = getattr(self, attribute)
        if found is UNSET:
            if not default:
                raise KeyError(name)
            return default[0]
        setattr(self, attribute, UNSET)
        return found


def member(value: Any, name: str) -> Any:
    """Return ``value.name``."""
    found = value[name] if type(value) is dict else getattr(value, name)
    if found is UNSET:
        raise AttributeError(name)
    return found


def get(value: Any, name: Any, default: Any = None) -> Any:
    """Return ``value.get(name, default)``."""
    if not isinstance(value, Named):
        return value.get(name, default)
    found = _read(value, name)
    return default if found is UNSET else found


def item(value: Any, key: Any) -> Any:
    """Return ``value[key]``."""
    if not isinstance(value, Named):
        return value[key]
    found = _read(value, key)
    if found is UNSET:
        raise KeyError(key)
    return found


def has(value: Named, name: Any) -> bool:
    """Return ``name in value``."""
    return _read(value, name) is not UNSET


def _read(value: Named, name: Any) -> Any:
    return getattr(value, _find_attribute(value, name))


def _find_attribute(value: Named, name: Any) -> str:
    attribute = value.attributes.get(name)
    if attribute is None:
        raise NotShortError
    return attribute


class PartialRequest(AdmissionRequest):
    """A request whose object was decoded with the review, in part. Its text is found again if somebody needs it."""

    def __getattr__(self, name: str) -> Any:
        if name != "object_raw":
            raise AttributeError(name)
        request = _decode_review(self.__dict__["body"]).request
        assert request is not None
        self.object_raw = request.object_raw
        return self.object_raw

    @property
    def size(self) -> int:
        """The bytes of the review."""
        return len(self.__dict__["body"])

    @property
    def cluster(self) -> str:
        """The logical cluster in the annotation of the object."""
        return cluster_of({"metadata": self.known_metadata})


_decode_review: Final = msgspec.json.Decoder(AdmissionReview).decode
_NO_MEMBER: Final = " "
"""The name of a member that no request has."""


class NamedDecoder:
    """Decodes the objects of a rule."""

    def __init__(self, attributes: Mapping[str, str]) -> None:
        """Prepare; ``attributes`` are those of `Named`."""
        renamed = {attribute: name for name, attribute in attributes.items()}
        self._journal: Final[list[tuple[Named, str, Any]]] = []
        space: dict[str, Any] = {"attributes": attributes, "names": renamed, "journal": self._journal}
        value: Any = _SCALAR
        for level in range(_LEVELS):
            fields = [(one, value | UnsetType, UNSET) for one in attributes.values()]
            made: Any = msgspec.defstruct(
                f"Named{level}", fields, bases=(Named,), gc=False, rename=renamed, namespace=space
            )
            value = _SCALAR | made | list[_SCALAR | made]
        unused = msgspec.field(default=msgspec.Raw(b"null"), name=_NO_MEMBER)
        named = msgspec.field(default=None, name="object")
        request: Any = msgspec.defstruct(
            "NamedRequest", [("object_raw", msgspec.Raw, unused), ("named", value, named)], bases=(PartialRequest,)
        )
        members = [("apiVersion", AdmissionAPIVersion), ("kind", Literal["AdmissionReview"]), ("request", request)]
        self._decode_review: Final = msgspec.json.Decoder(msgspec.defstruct("NamedReview", members)).decode
        self._decode: Final = msgspec.json.Decoder(value).decode
        self._cluster: Final = attributes[CLUSTER_ANNOTATION]

    def decode_review(self, body: bytes) -> tuple[str, AdmissionRequest] | None:
        """Return the apiVersion and the request of a review, None if it cannot be decoded so."""
        try:
            review: Any = self._decode_review(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        request = review.request
        if not request.uid:
            return None
        del request.object_raw
        request.__dict__["body"] = body
        self._note(request, request.named)
        return review.apiVersion, request

    def read(self, review: AdmissionRequest) -> Any:
        """Return the object of a review."""
        self._journal.clear()
        if isinstance(review, PartialRequest) and review.operation != "DELETE":
            return review.named
        found = self._decode(review.old_object_raw if review.operation == "DELETE" else review.object_raw)
        self._note(review, found)
        return found

    def _note(self, review: AdmissionRequest, document: Any) -> None:
        """Note the metadata for the log."""
        metadata = getattr(document, "metadata", None)
        cluster = getattr(getattr(metadata, "annotations", None), self._cluster, "")
        review.note_metadata(getattr(metadata, "generateName", ""), cluster)


def make_decoder(names: Collection[str]) -> NamedDecoder | None:
    """Return the decoder of objects for a rule with some names, None if they are too many.

    A text that no JSON has without an escape is no name. Code that reads such a member has no result.
    """
    listed = dict.fromkeys((*_FOR_SERVER, *(one for one in names if one.isprintable() and not _ESCAPED & {*one})))
    attributes = {
        name: name if name.isascii() and name.isidentifier() else f"member_{at}" for at, name in enumerate(listed)
    }
    given = {*attributes.values()}
    is_fit = len(given) == len(listed) <= MAX_NAMES and given.isdisjoint({*dir(Named), *_RESERVED})
    return NamedDecoder(attributes) if is_fit else None


def find_operation(root: Named) -> JSONObject | None:
    """Return the operation of the JSON Patch with the one change of a call, None without a change.

    Raises:
        NotShortError: There are several changes, or the change depends on members that have no names.
    """
    if not root.journal:
        return None
    if len(root.journal) > 1:
        raise NotShortError
    node, attribute, former = root.journal[0]
    path, value = f"{_find_pointer(root, node)}/{escape(node.names[attribute])}", getattr(node, attribute)
    if not path.startswith(_MAY_CHANGE):
        raise NotShortError
    if value is UNSET:
        return {"op": "remove", "path": path}
    if former is UNSET:
        return {"op": "add", "path": path, "value": encode(value)}
    if not {type(former), type(value)} <= _SCALAR_TYPES:
        raise NotShortError
    is_same = type(former) is type(value) and former == value
    return None if is_same else {"op": "replace", "path": path, "value": encode(value)}


def lacks(root: Any, path: Sequence[str], name: str) -> bool:
    """Return whether an object at a path certainly has no member of a name."""
    for one in path:
        root = getattr(root, root.attributes.get(one, ""), None) if isinstance(root, Named) else None
    return isinstance(root, Named) and getattr(root, root.attributes.get(name, ""), None) is UNSET


def _find_pointer(root: Named, node: Named) -> str:
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, one = waiting.pop()
        if one is node:
            return path
        if isinstance(one, Named):
            for name, inner in zip(one.attributes, msgspec.structs.astuple(one), strict=True):
                if inner is not UNSET and type(inner) not in _SCALAR_TYPES:
                    waiting.append((f"{path}/{escape(name)}", inner))
        elif isinstance(one, list):
            waiting += [(f"{path}/{at}", inner) for at, inner in enumerate(one)]
    raise NotShortError  # The rule has removed the object.
