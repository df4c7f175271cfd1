"""Limits the calls of webhooks for one request, and the cost of its conditions.

Kubernetes has no such limits, since one administrator writes all configurations of a cluster. Here each workspace
writes its own. A request beyond a limit is refused even with failurePolicy Ignore. Otherwise, an author of a large
request could switch off such webhooks.
"""

from typing import NamedTuple

from fleethook.engines.dispatch.dispatch_errors import StatusError, forbidden
from fleethook.engines.dispatch.match.match_conditions import MAX_COST_OF_REQUEST
from fleethook.engines.dispatch.match.rules import Attributes


class RequestLimits(NamedTuple):
    """The limits of one request in one phase."""

    webhooks: int = 128
    """The maximum number of webhook calls; a reinvocation counts as a call."""
    cel_cost: int = MAX_COST_OF_REQUEST
    """The maximum cost of all matchConditions, in Kubernetes' units; a higher cost is an error."""


def too_many_webhooks(attributes: Attributes, limit: int) -> StatusError:
    """Return the refusal of a request that matches too many webhooks."""
    text = f"it matches more than {limit} webhooks, the limit of one request"
    return forbidden(attributes.resource_name, attributes.name, text)
