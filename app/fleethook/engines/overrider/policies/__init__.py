"""Compiles overriders to MutatingAdmissionPolicies, so that kube-apiserver applies them without a webhook (pure)."""

from fleethook.engines.overrider.policies.compilation import (
    COMPILED_LABEL,
    DIGEST_ANNOTATION,
    Compilation,
    Refusal,
    is_partial,
)

__all__ = ["COMPILED_LABEL", "DIGEST_ANNOTATION", "Compilation", "Refusal", "is_partial"]
