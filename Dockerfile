# syntax=docker/dockerfile:1
# The base needs python3 3.11 or newer with venv, for example python:*-slim or Debian with python3-venv.
ARG BASE=python:3.13-slim-bookworm

# Build: the pinned dependencies and fleethook itself, in a virtual environment, and the list of its packages.
FROM ${BASE} AS build
# Settings of pip for networks with a mirror or a private CA: image/build.py passes those of its own environment.
ARG PIP_INDEX_URL
ARG PIP_CERT
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements/image.txt requirements/sbom.txt requirements/
RUN --mount=type=secret,id=ca.crt \
    python3 -m venv /opt/fleethook \
    && /opt/fleethook/bin/pip install --no-cache-dir --require-hashes -r requirements/image.txt \
    && python3 -m venv /opt/sbom \
    && /opt/sbom/bin/pip install --no-cache-dir --require-hashes -r requirements/sbom.txt
COPY pyproject.toml README.md LICENSE ./
COPY app app
RUN --mount=type=secret,id=ca.crt \
    /opt/fleethook/bin/pip install --no-cache-dir --no-deps . \
    && /opt/fleethook/bin/pip uninstall --yes pip
RUN mkdir -p /opt/fleethook/share/sbom \
    && /opt/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
        --output-format JSON --output-file /opt/fleethook/share/sbom/fleethook.cdx.json /opt/fleethook/bin/python3

# Run: no pip, no compiler, an unprivileged user; the root file system may be read-only.
# The server writes only to /var/run/fleethook: its certificates.
FROM ${BASE}
# A base may have no pip. Debian's refuses without the variable, and does not remove its own files.
RUN if python3 -m pip --version; then PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip uninstall --yes pip; fi \
    && if python3 -m pip --version; then rm -r "$(python3 -c 'import os, pip; print(os.path.dirname(pip.__file__))')"; fi \
    && ! python3 -m pip --version \
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
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="fleethook" \
    org.opencontainers.image.description="Admission and review webhooks for a fleet of Kubernetes clusters" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.created="${CREATED}"
