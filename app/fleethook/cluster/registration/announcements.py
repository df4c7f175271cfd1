"""Announcements: overriders that a replica has admitted, and that the leader may not have seen yet.

The subjects listed in the match condition are not enough to inform the leader. A webhook without the condition has no
list to which a replica could add a subject, while the leader may be about to write one. A listed subject may be one
that the leader is about to remove, because its former overrider was deleted.

So each announcement is also an entry in an annotation of the webhook configuration. The entry changes the
resourceVersion, so that a concurrent write of the leader fails with a conflict.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.registration.match_conditions import SubjectName
from fleethook.model.json import JSON

ANNOUNCED_ANNOTATION: Final = "fleethook.io/announced"
# kube-apiserver limits the annotations of an object to 256 KiB (TotalAnnotationSizeLimitB). 64 KiB hold about 700
# overriders.
MAX_ANNOTATION_BYTES: Final = 64 * 1024


class Announcement(NamedTuple):
    """An overrider that is about to be stored."""

    subject: SubjectName
    overrider: str
    """The uid of the overrider, ``""`` if only the subject is known."""


_decode: Final = msgspec.json.Decoder(list[Announcement]).decode


def read_announcements(annotation: JSON) -> tuple[Announcement, ...]:
    """Return the announcements in the annotation, oldest first; none if the annotation has another format."""
    try:
        return tuple(_decode(annotation)) if isinstance(annotation, str) else ()
    except msgspec.DecodeError:
        return ()  # another client wrote the annotation


def write_announcements(announcements: Sequence[Announcement]) -> str:
    """Return the value of the annotation; the oldest announcements are dropped if it would be too long."""
    kept: list[bytes] = []
    size = len("[]")
    for one in reversed(announcements):
        text = msgspec.json.encode(one)
        size += len(text) + len(",")
        if size > MAX_ANNOTATION_BYTES:
            break
        kept.append(text)
    return f"[{b','.join(reversed(kept)).decode()}]"
