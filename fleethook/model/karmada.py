"""Interpreter reviews and webhook configurations of ``config.karmada.io``."""

from app.model.admission import Kind
from app.model.karmada import (
    AggregatedStatusItem,
    ExploringWebhook,
    HookClientConfig,
    HookRule,
    HookService,
    InterpretRequest,
    InterpretReview,
    Operation,
    ResourceExploringWebhookConfiguration,
)

__all__ = [
    "AggregatedStatusItem",
    "ExploringWebhook",
    "HookClientConfig",
    "HookRule",
    "HookService",
    "InterpretRequest",
    "InterpretReview",
    "Kind",
    "Operation",
    "ResourceExploringWebhookConfiguration",
]
