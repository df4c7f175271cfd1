"""A recorder for tests: it keeps the reviews in memory."""

from fleethook.server.reviews.records_and_traces import AnsweredReview


class KeptReviews(list[AnsweredReview]):
    """Keeps every review."""

    def __call__(self, review: AnsweredReview) -> None:
        """Keep a review."""
        self.append(review)
