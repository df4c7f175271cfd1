"""Pairs of elements that correspond to each other in two lists."""

from typing import Final

from app.model.json import JSON
from app.patch.equality import identical

# The alignment compares every element with every other one. Longer lists are compared index by index instead.
_MAX_PAIRS: Final = 4096
# An unchanged element needs no operation, so it counts more than two changed elements that kept their names.
_SAME_SCORE: Final = 3
_SAME_NAME_SCORE: Final = 1


def align(old: list[JSON], new: list[JSON]) -> list[tuple[int, int]]:
    """Return the index pairs of elements that are identical or share a name, in list order."""
    if len(old) * len(new) > _MAX_PAIRS:
        return [(position, position) for position in range(min(len(old), len(new)))]
    scores = [[_score_pair(left, right) for right in new] for left in old]
    best = _compute_best_scores(scores, len(new))
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        score = scores[i][j]
        if score and best[i][j] == best[i + 1][j + 1] + score:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _score_pair(left: JSON, right: JSON) -> int:
    if left is right or identical(left, right):
        return _SAME_SCORE
    if isinstance(left, dict) and isinstance(right, dict) and "name" in left and left["name"] == right.get("name"):
        return _SAME_NAME_SCORE
    return 0


def _compute_best_scores(scores: list[list[int]], width: int) -> list[list[int]]:
    best = [[0] * (width + 1) for _ in range(len(scores) + 1)]
    for i in range(len(scores) - 1, -1, -1):
        row, below, row_scores = best[i], best[i + 1], scores[i]
        for j in range(width - 1, -1, -1):
            paired = below[j + 1] + row_scores[j] if row_scores[j] else 0
            row[j] = max(paired, below[j], row[j + 1])
    return best
