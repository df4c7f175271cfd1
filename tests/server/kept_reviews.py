"""A recorder for tests: it keeps the reviews in memory."""

from fleethook.server.reviews.recorded_review import AnsweredReview


class KeptReviews(list[AnsweredReview]):
    """Keeps every review."""

    def __call__(self, review: AnsweredReview) -> None:
        """Keep a review."""
        self.append(review)
