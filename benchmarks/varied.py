"""A thousand different reviews, as a server with many workloads receives them. All servers get the same thousand.

Workloads of one subject differ in names, replicas and annotations, so also in length. Their images are those of the subject's
template; there are a hundred subjects. Edited workloads have other images than their template, which costs our server more.
Each review is one line, because load generators read one body from each line of a file.
"""

import random
import string
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.reviews import deployment, explore_review, overrider, review, yurt_app_set

COUNT = 1_000
SUBJECTS = 100
"""Number of subjects. The first is that of `benchmarks.reviews`, the others have their own names and images."""
_SUFFIX = string.ascii_lowercase + string.digits


class Subject(NamedTuple):
    """A YurtAppSet and the images of its template."""

    name: str
    uid: str
    app: str
    proxy: str


def subjects() -> list[Subject]:
    pick = random.Random(0)
    first = yurt_app_set()["metadata"]
    images = [container["image"] for container in deployment()["spec"]["template"]["spec"]["containers"]]
    return [Subject(first["name"], first["uid"], *images)] + [
        Subject(f"shop-{number}", _uid(pick), _app(pick), _proxy(pick)) for number in range(1, SUBJECTS)
    ]


def stored() -> list[dict[str, Any]]:
    """Return the YurtAppSet and the overrider of each subject."""
    return [document for subject in subjects() for document in (_set_of(subject), overrider(subject.name))]


def _set_of(subject: Subject) -> dict[str, Any]:
    document = yurt_app_set()
    document["metadata"] |= {"name": subject.name, "uid": subject.uid}
    template = document["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]
    _put_images(template["spec"], subject.app, subject.proxy)
    return document


def _put_images(pod: dict[str, Any], app: str, proxy: str) -> None:
    first, second = pod["containers"]
    first["image"] = pod["initContainers"][0]["image"] = app
    second["image"] = proxy


def deployments(count: int = COUNT, *, edited: bool = False) -> list[dict[str, Any]]:
    """Return different Deployments like that of `benchmarks.reviews.deployment`.

    Args:
        count: The number of Deployments; the subjects take turns.
        edited: Whether their images differ from those of the template.
    """
    pick, all_subjects = random.Random(1), subjects()
    return [_vary(deployment(), all_subjects[number % SUBJECTS], pick, edited=edited) for number in range(count)]


def _vary(document: dict[str, Any], subject: Subject, pick: random.Random, *, edited: bool) -> dict[str, Any]:
    metadata, spec = document["metadata"], document["spec"]
    metadata["generateName"] = f"{subject.name}-hangzhou-"
    metadata["name"] = metadata["generateName"] + "".join(pick.choices(_SUFFIX, k=5))
    metadata["uid"] = _uid(pick)
    metadata["ownerReferences"][0] |= {"name": subject.name, "uid": subject.uid}
    metadata["annotations"]["deployment.kubernetes.io/revision"] = str(pick.randrange(1, 1_000))
    for number in range(pick.randrange(6)):
        metadata["annotations"][f"example.com/note-{number}"] = "".join(
            pick.choices(_SUFFIX, k=pick.randrange(10, 120))
        )
    spec["replicas"] = pick.randrange(1, 21)
    app, proxy = (_app(pick), _proxy(pick)) if edited else (subject.app, subject.proxy)
    _put_images(spec["template"]["spec"], app, proxy)
    return document


def _app(pick: random.Random) -> str:
    return f"registry.example.com/shop/app:1.{pick.randrange(20)}.{pick.randrange(50)}"


def _proxy(pick: random.Random) -> str:
    return f"registry.example.com/mesh/proxy:2.{pick.randrange(10)}.{pick.randrange(20)}"


def _uid(pick: random.Random) -> str:
    return str(uuid.UUID(int=pick.getrandbits(128), version=4))


def reviews(operation: str, count: int = COUNT, *, edited: bool = False) -> list[bytes]:
    """Return different AdmissionReviews of an operation; arguments as of `deployments`."""
    pick = random.Random(2)
    return [review(operation, document, uid=_uid(pick)) for document in deployments(count, edited=edited)]


def explore_reviews(operation: str, count: int = COUNT) -> list[bytes]:
    """Return different ExploreReviews of an operation."""
    pick = random.Random(3)
    return [explore_review(operation, document, uid=_uid(pick)) for document in deployments(count)]


def write_lines(path: Path, bodies: list[bytes]) -> Path:
    """Write bodies as a load generator reads them."""
    assert not any(b"\n" in body for body in bodies)
    path.write_bytes(b"\n".join(bodies))
    return path


def size_of(path: Path) -> float:
    """Return the mean length of the bodies in a file."""
    return path.stat().st_size / len(path.read_bytes().split(b"\n"))
