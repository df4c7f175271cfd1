"""Limits of one request: calls of webhooks, and questions to the authorizer.

Kubernetes has no such limits, since one administrator writes all configurations of a cluster. Here every workspace
writes its own. A request beyond a limit is refused whatever the failurePolicy: who can make a request large could
otherwise switch off the webhooks that ignore failures.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from app.dispatch.attributes import Attributes
from app.dispatch.cel.access_check import AccessDecision, AccessQuestion
from app.dispatch.conditions import MAX_COST_OF_REQUEST
from app.dispatch.failures import StatusError, forbidden

Questions = frozenset[AccessQuestion]
Decisions = Mapping[AccessQuestion, AccessDecision]


class RequestLimits(NamedTuple):
    """The limits of one request in one phase."""

    webhooks: int = 128
    """Webhooks that are called; a mutating one that is called again counts again."""
    access_reviews: int = 64
    """SubjectAccessReviews of all matchConditions together. An apiserver's cost budget allows 7 for each webhook."""
    cel_cost: int = MAX_COST_OF_REQUEST
    """Cost of all matchConditions together, in Kubernetes' units. More is an error of the conditions."""


def too_many_webhooks(attributes: Attributes, limit: int) -> StatusError:
    """Return why a request is refused for which too many webhooks are to be called."""
    text = f"more than {limit} webhooks are to be called, which is the limit (setting dispatch_request_webhooks)"
    return forbidden(attributes.resource_name, attributes.name, text)


class Authorizer:
    """Asks the authorizer for one request: each question once, and a limited number of them."""

    def __init__(
        self, ask: Callable[[str, Questions], Awaitable[Decisions]], attributes: Attributes, *, limit: int
    ) -> None:
        """Prepare.

        Args:
            ask: Asks the authorizer of a logical cluster.
            attributes: The request.
            limit: How many questions it may have.
        """
        self._ask: Final = ask
        self._attributes: Final = attributes
        self._limit: Final = limit
        self._decisions: Final[dict[AccessQuestion, AccessDecision]] = {}

    async def __call__(self, questions: Questions) -> Decisions:
        """Return what the authorizer says.

        Raises:
            StatusError: They are more questions than a request may have; none of them is asked.
        """
        new = questions - self._decisions.keys()
        if len(self._decisions) + len(new) > self._limit:
            text = (
                f"its matchConditions ask the authorizer more than {self._limit} questions, which is the limit "
                "(setting dispatch_request_access_reviews)"
            )
            raise forbidden(self._attributes.resource_name, self._attributes.name, text)
        if new:
            self._decisions.update(await self._ask(self._attributes.cluster, new))
        return {question: self._decisions[question] for question in questions}
