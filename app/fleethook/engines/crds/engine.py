"""The engine for the CRD tarballs of Karmada."""

# ruff: noqa: PLC0415 - each command reads this record, so it imports as little as possible

from typing import TYPE_CHECKING, Final

from fleethook.engine import CommandSpec, Engine, Probe

if TYPE_CHECKING:
    from fleethook.cluster.registration.webhook_configurations import OwnWebhook

_FOLDER: Final = "fleethook.engines.crds"

ENGINE: Final = Engine(
    name="crds",
    order=40,
    system="Karmada",
    server=f"{_FOLDER}.crds_server:CrdsServer",
    commands={
        "crds": CommandSpec(f"{_FOLDER}.commands.crds:crds", "Fetch, verify and cache the CRD tarballs of Karmada."),
    },
    webhooks=f"{_FOLDER}.engine:list_webhooks",
    probe=f"{_FOLDER}.engine:make_probe",
    page=f"{_FOLDER}.pages.crds:PAGE",
)
"""All that the engine contributes."""


def list_webhooks() -> "tuple[OwnWebhook, ...]":
    """Return the webhooks for Karmada instances, in their order in a configuration."""
    from fleethook.cluster.registration import paths
    from fleethook.cluster.registration.webhook_configurations import MUTATING, NOT_DELETING, VALIDATING, OwnWebhook
    from fleethook.model.crd_tarball import GROUP, VERSION

    return (
        OwnWebhook(
            "defaults.karmada.crds.fleethook.io", MUTATING, paths.MUTATE_KARMADA, GROUP, VERSION,
            ("karmadas",), {}, (NOT_DELETING,),
        ),
        OwnWebhook(
            "rules.karmada.crds.fleethook.io", VALIDATING, paths.VALIDATE_KARMADA, GROUP, VERSION,
            ("karmadas",), {}, (NOT_DELETING,),
        ),
    )  # fmt: skip


def make_probe(name: str) -> Probe:
    """Return a dry run of an instance with this name and a URL that admission refuses."""
    from fleethook.model.crd_tarball import GROUP, VERSION

    body = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Karmada",
        "metadata": {"name": name},
        "spec": {"crdTarball": {"httpSource": {"url": "ftp://doctor.fleethook.io/crds.tar.gz"}}},
    }
    return Probe("rules.karmada.crds.fleethook.io", "karmadas", namespaced=True, body=body)
