"""Instances of Karmada (``operator.karmada.io``): the members about CRD tarballs."""

from app.model.operator import (
    ConfigMapSource,
    CRDTarball,
    HTTPSource,
    Karmada,
    KarmadaSpec,
    LocalSource,
    ProxyConfig,
    SecretReference,
)

__all__ = [
    "CRDTarball",
    "ConfigMapSource",
    "HTTPSource",
    "Karmada",
    "KarmadaSpec",
    "LocalSource",
    "ProxyConfig",
    "SecretReference",
]
