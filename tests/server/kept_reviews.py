"""A recorder for tests: it keeps the reviews in memory."""

from fleethook.server.reviews.recording import AnsweredReview


class KeptReviews(list[AnsweredReview]):
    """Keeps every review."""

    def wants(self, uid: str, consumer: str, body: bytes, answer: bytes) -> bool:
        """Accept all."""
        del uid, consumer, body, answer
        return True

    def __call__(self, review: AnsweredReview) -> None:
        """Keep a review."""
        self.append(review)
