"""Records an Event for each invalid customization; only the leader runs it."""

from typing import TYPE_CHECKING

from fleethook.engines.interpret.lua.customizations import Customizations
from fleethook.model.json import as_object

if TYPE_CHECKING:
    from fleethook.cluster.events import Recorder, Reference

REASON = "CustomizationRefused"


async def record_refusals(customizations: Customizations, recorder: "Recorder") -> None:
    """Record an Event whenever the problems of a customization change, until cancelled."""
    recorded: dict[tuple[str, str, str], str] = {}
    while True:
        customizations.changed.clear()
        current: dict[tuple[str, str, str], str] = {}
        for refused in list(customizations.refused()):
            about = _make_reference(refused.document)
            key = about.kind, about.namespace, about.name
            current[key] = refused.text
            if recorded.get(key) != refused.text:
                await recorder.record(about, "Warning", REASON, refused.text)
        recorded = current
        await customizations.changed.wait()


def _make_reference(document: object) -> "Reference":
    from fleethook.cluster.events import Reference  # noqa: PLC0415 - see app.kube

    object_ = as_object(document)
    metadata = as_object(object_.get("metadata"))
    names = (str(metadata.get(name) or "") for name in ("namespace", "name", "uid"))
    return Reference(str(object_.get("apiVersion")), str(object_.get("kind")), *names)
