"""Node pools of a converted set, for tests of single steps of a conversion."""

from typing import Any

from fleethook.cluster.store import key_of
from fleethook.engines.overrider.convert.remarks import Subject
from fleethook.engines.overrider.convert.states import PoolSource
from fleethook.engines.overrider.convert.subject_conversion import convert_subject
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import overrider, pool, store_of, yurt_app_set

LABEL = "apps.openyurt.io/nodepool"


def placed(name: str, **fields: Any) -> dict[str, Any]:
    """Return a pool of a topology whose pods run only on its nodes."""
    own = {"key": LABEL, "operator": "In", "values": [name]}
    return pool(name, **{"nodeSelectorTerm": {"matchExpressions": [own]}, **fields})


def source_of(*entries: dict[str, Any], config: dict[str, Any] | None = None, **spec: Any) -> PoolSource:
    """Return the only pool of a set, with the entries of its overrider."""
    config = placed("a") if config is None else config
    subject = yurt_app_set(pools=[config], **spec)
    converted = convert_subject(YURT_APP_SET, subject, kind="Deployment", pools=["a"])
    return PoolSource(YURT_APP_SET, subject, list(entries), "Deployment", "a", None, converted, config=config)


def subject_of(source: PoolSource, *objects: dict[str, Any]) -> Subject:
    """Return the subject of a pool, with its overrider and a store of further objects."""
    rule = overrider(*source.entries) if source.entries else None
    store = store_of(source.subject, *objects)
    return Subject(key_of(source.subject), source.subject, rule, "Deployment", store)
