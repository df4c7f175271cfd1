"""Announcements: the overriders that replicas have admitted and that the leader may not have seen yet.

The list of subjects in the condition is not enough to tell the leader of them. A webhook without the condition sends
every workload, so there is no list to add a subject to, and the leader is about to write one. A subject that is listed
already may be one that the leader is about to remove, because its former overrider was deleted.

So each announcement is also an entry of an annotation of the webhook configuration. It changes the configuration's
resourceVersion, so that a write of the leader which was prepared before it fails.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from app.model.json import JSON
from app.registration.match_conditions import SubjectName

ANNOUNCED_ANNOTATION: Final = "fleethook.io/announced"
# An apiserver takes 256 KiB of annotations for an object (TotalAnnotationSizeLimitB); 64 KiB are some 700 overriders.
MAX_ANNOTATION_BYTES: Final = 64 * 1024


class Announcement(NamedTuple):
    """An overrider that is about to be stored."""

    subject: SubjectName
    overrider: str
    """Its uid, ``""`` if only the subject is known."""


_decode: Final = msgspec.json.Decoder(list[Announcement]).decode


def read_announcements(annotation: JSON) -> tuple[Announcement, ...]:
    """Return the announcements in the text of the annotation, oldest first; none in a text of another form."""
    try:
        return tuple(_decode(annotation)) if isinstance(annotation, str) else ()
    except msgspec.DecodeError:
        return ()  # Somebody else's text.


def write_announcements(announcements: Sequence[Announcement]) -> str:
    """Return the text of the annotation, without the oldest announcements if it would be too long."""
    kept: list[bytes] = []
    size = len("[]")
    for one in reversed(announcements):
        text = msgspec.json.encode(one)
        size += len(text) + len(",")
        if size > MAX_ANNOTATION_BYTES:
            break
        kept.append(text)
    return f"[{b','.join(reversed(kept)).decode()}]"
