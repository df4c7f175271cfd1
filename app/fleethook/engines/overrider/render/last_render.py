"""The annotations that a render sets on a workload."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import RENDERED_ANNOTATION

UNDO_ANNOTATION: Final = "fleethook.io/undo"
TWEAKS_ANNOTATION: Final = "fleethook.io/tweaks"
"""The tweaks of the last render (`fleethook.engines.overrider.subject.subject_members.encode_tweaks`)."""
RENDER_ANNOTATIONS: Final = (RENDERED_ANNOTATION, UNDO_ANNOTATION, TWEAKS_ANNOTATION)
RESERVED_PREFIX: Final = "fleethook.io/"
"""The prefix of annotations and labels that only fleethook writes."""


class LastRender(NamedTuple):
    """The annotations that the last render set on a workload."""

    digest: str
    undo_text: str
    tweaks: str = ""

    @property
    def undo(self) -> JSONObject:
        """The undo, ``{}`` if the annotation is not valid: every writer of the workload can change it."""
        try:
            undo = msgspec.json.decode(self.undo_text or b"{}")
        except msgspec.DecodeError:
            return {}
        return undo if isinstance(undo, dict) else {}


NEVER_RENDERED: Final = LastRender("", "")
"""The annotations of a workload whose own ones are forged; as the next render: without annotations."""


def read_last_render(workload: Mapping[str, JSON]) -> LastRender | None:
    """Return the annotations of the last render of ``workload``, None if it was never rendered."""
    annotations = as_object(as_object(workload.get("metadata")).get("annotations"))
    if annotations.keys().isdisjoint(RENDER_ANNOTATIONS):
        return None
    texts = [annotations.get(name) for name in RENDER_ANNOTATIONS]
    if texts == [None, None, None]:
        return None
    return LastRender(*(text if isinstance(text, str) else "" for text in texts))


def set_last_render(rendered: JSONObject, last_render: LastRender) -> JSONObject:
    """Return a rendered workload with the annotations of its render, and without those of a former one."""
    metadata = rendered["metadata"]
    annotations = metadata.get("annotations") or {}
    annotated = {name: text for name, text in zip(RENDER_ANNOTATIONS, last_render, strict=True) if text}
    known = {name: annotations[name] for name in RENDER_ANNOTATIONS if name in annotations}
    if known == annotated:
        return rendered
    kept = {name: value for name, value in annotations.items() if name not in known}
    merged: JSON = {**kept, **annotated}
    if merged:
        return {**rendered, "metadata": {**metadata, "annotations": merged}}
    return {**rendered, "metadata": {name: value for name, value in metadata.items() if name != "annotations"}}
