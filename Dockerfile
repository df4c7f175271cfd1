# syntax=docker/dockerfile:1
# Build: the pinned dependencies and fleethook itself, in a virtual environment.
FROM python:3.13-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements/image.txt requirements/image.txt
RUN python -m venv /opt/fleethook \
    && /opt/fleethook/bin/pip install --no-cache-dir --require-hashes -r requirements/image.txt
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY fleethook fleethook
RUN /opt/fleethook/bin/pip install --no-cache-dir --no-deps . \
    && /opt/fleethook/bin/pip uninstall --yes pip

# Run: no package manager, no compiler, no shell scripts; an unprivileged user; the root file system may be read-only.
# The server writes only to /var/run/fleethook: its certificates, and its metrics if it has several workers.
FROM python:3.13-slim-bookworm
RUN python -m pip uninstall --yes pip \
    && install --directory --mode=0700 --owner=65532 --group=65532 /var/run/fleethook
COPY --from=build /opt/fleethook /opt/fleethook
ENV PATH=/opt/fleethook/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TMPDIR=/var/run/fleethook \
    FLEETHOOK_HOST=0.0.0.0 \
    FLEETHOOK_CERT_DIR=/var/run/fleethook/certs
USER 65532:65532
EXPOSE 9443
ENTRYPOINT ["fleethook"]
CMD ["serve"]
