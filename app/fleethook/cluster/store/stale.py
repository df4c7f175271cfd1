"""The error of an answer that would depend on stale objects."""


class StaleError(Exception):
    """The objects that the answer depends on cannot be read now, so the caller has to retry."""
