"""The sections of the console: their addresses, titles and the kinds that they show."""

from typing import Final, NamedTuple

from fleethook.model.gvk import GroupKind
from fleethook.model.karmada import CONFIG_MAP, CUSTOMIZATION, EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION
from fleethook.model.kcp import API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, LOGICAL_CLUSTER, WORKSPACE
from fleethook.model.openyurt import NODE_POOL, YURT_APP_DAEMON, YURT_APP_OVERRIDER, YURT_APP_SET
from fleethook.model.operator import KARMADA


class Section(NamedTuple):
    """A page with an entry in the navigation.

    Attributes:
        path: Its path, ``/`` for the overview.
        title: Its name in the navigation.
        kinds: The kinds that its pages show. A user must have the right to get each of them in all namespaces.
        further: Kinds that its pages also read. A user needs the right for those that the source has objects of.
    """

    path: str
    title: str
    kinds: tuple[GroupKind, ...] = ()
    further: tuple[GroupKind, ...] = ()


WORKLOADS: Final = (GroupKind("apps", "Deployment"), GroupKind("apps", "StatefulSet"))
MUTATING: Final = GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
VALIDATING: Final = GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")

_NAMESPACE: Final = GroupKind("", "Namespace")
_DEFINITION: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
_OF_KCP: Final = (API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, LOGICAL_CLUSTER, WORKSPACE)
_INTERPRETING: Final = (CUSTOMIZATION, EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION)
_SUBJECTS: Final = (YURT_APP_SET, YURT_APP_DAEMON, NODE_POOL)

SECTIONS: Final = (
    Section("/", "Overview"),
    Section("/overriders", "Overriders", (YURT_APP_OVERRIDER, YURT_APP_SET, YURT_APP_DAEMON, NODE_POOL, *WORKLOADS)),
    # Its pages ask for the other kinds themselves: each needs other ones.
    Section("/dispatch", "Dispatch", (MUTATING, VALIDATING)),
    Section("/interpreters", "Interpreters", _INTERPRETING, (_DEFINITION, CONFIG_MAP)),
    Section("/crds", "CRD tarballs", (KARMADA,)),
    Section(
        "/reviews",
        "Reviews",
        (YURT_APP_OVERRIDER, MUTATING, VALIDATING),
        (*_SUBJECTS, *_INTERPRETING, CONFIG_MAP, *_OF_KCP, _DEFINITION, _NAMESPACE),
    ),
)


def find_section(path: str) -> Section | None:
    """Return the section of a path, None for a path of the frame such as ``/static/…``."""
    first = "/" + path.lstrip("/").partition("/")[0]
    return next((one for one in SECTIONS if one.path == first), None)
