"""fleethook: admission and review webhooks for a fleet of Kubernetes clusters."""

__version__ = "0.2.0"
