"""The error of an answer that would depend on stale objects."""


class StaleError(Exception):
    """The objects that the answer depends on cannot be read, so there is no answer; the caller has to ask again."""
