"""A thousand different reviews: what a server is asked that has more than one workload, the same thousand for everybody.

They differ as workloads of one subject do that were rolled out at different times: in names, images, replicas and annotations,
so also in length. Every text is a line, which is how load generators take several bodies from one file.
"""

import random
import string
import uuid
from pathlib import Path
from typing import Any

from benchmarks.reviews import deployment, explore_review, review

COUNT = 1_000
_SUFFIX = string.ascii_lowercase + string.digits


def deployments(count: int = COUNT) -> list[dict[str, Any]]:
    """Return Deployments like that of `benchmarks.reviews.deployment`, no two of them alike."""
    pick = random.Random(1)
    return [_vary(deployment(), pick) for _ in range(count)]


def _vary(document: dict[str, Any], pick: random.Random) -> dict[str, Any]:
    metadata, spec = document["metadata"], document["spec"]
    metadata["name"] = metadata["generateName"] + "".join(pick.choices(_SUFFIX, k=5))
    metadata["uid"] = _uid(pick)
    metadata["annotations"]["deployment.kubernetes.io/revision"] = str(pick.randrange(1, 1_000))
    for number in range(pick.randrange(6)):
        metadata["annotations"][f"example.com/note-{number}"] = "".join(
            pick.choices(_SUFFIX, k=pick.randrange(10, 120))
        )
    spec["replicas"] = pick.randrange(1, 21)
    pod = spec["template"]["spec"]
    release = f"1.{pick.randrange(20)}.{pick.randrange(50)}"
    for container in (pod["containers"][0], *pod["initContainers"]):
        container["image"] = f"registry.example.com/shop/app:{release}"
    pod["containers"][1]["image"] = f"registry.example.com/mesh/proxy:2.{pick.randrange(10)}.{pick.randrange(20)}"
    return document


def _uid(pick: random.Random) -> str:
    return str(uuid.UUID(int=pick.getrandbits(128), version=4))


def reviews(operation: str, count: int = COUNT) -> list[bytes]:
    """Return different AdmissionReviews of an operation."""
    pick = random.Random(2)
    return [review(operation, document, uid=_uid(pick)) for document in deployments(count)]


def explore_reviews(operation: str, count: int = COUNT) -> list[bytes]:
    """Return different ExploreReviews of an operation."""
    pick = random.Random(3)
    return [explore_review(operation, document, uid=_uid(pick)) for document in deployments(count)]


def write_lines(path: Path, bodies: list[bytes]) -> Path:
    """Write bodies as a load generator takes them."""
    assert not any(b"\n" in body for body in bodies)
    path.write_bytes(b"\n".join(bodies))
    return path


def size_of(path: Path) -> float:
    """Return the mean length of the bodies in a file."""
    return path.stat().st_size / len(path.read_bytes().split(b"\n"))
