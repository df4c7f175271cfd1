"""Decides which namespaces are exempt: the apiserver sends no object of them to our webhooks."""


def find_exempt_namespaces(service: str | None) -> list[str]:
    """Return the exempt namespaces: that of this server, so that it can be repaired while it does not respond.

    Args:
        service: The server's Service as ``NAMESPACE/NAME[:PORT]``. None or empty if it is reached by a URL; then
            its namespace is unknown, and none is exempt.
    """
    return [service.partition("/")[0]] if service else []
