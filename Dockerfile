# syntax=docker/dockerfile:1
# One image for every process of a fleet: `docker build -t kvjobs .`
# For an NVIDIA GPU: --build-arg ONNXRUNTIME='onnxruntime-gpu[cuda,cudnn]'. CUDA is then installed as Python packages,
# and the host's NVIDIA Container Toolkit mounts the driver, so the small base image suffices.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
ARG EXTRAS=postgres
ARG ONNXRUNTIME=onnxruntime
WORKDIR /source
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheel .
RUN python -m venv /opt/kvjobs && /opt/kvjobs/bin/pip install "$(echo /wheel/kvjobs-*.whl)[${EXTRAS}]"
# Both distributions contain the package `onnxruntime`: uninstall one before installing the other.
RUN if [ "${ONNXRUNTIME}" != onnxruntime ]; then \
        /opt/kvjobs/bin/pip uninstall --yes onnxruntime && /opt/kvjobs/bin/pip install "${ONNXRUNTIME}"; \
    fi

FROM ${BASE}
LABEL org.opencontainers.image.title="kvjobs" \
      org.opencontainers.image.description="Bulk translation of whole corpora in the background" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/kvjobs /opt/kvjobs
# onnxruntime finds CUDA through the dynamic loader; the Python packages install it into folders of their own.
RUN find /opt/kvjobs/lib -path '*/nvidia/*' -type d -name lib > /etc/ld.so.conf.d/kvjobs.conf && ldconfig \
    && groupadd --gid 10001 kvjobs \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin kvjobs \
    && install --directory --owner=10001 --group=10001 /data /models
# The root file system may be read-only: kvjobs writes to /data (a SQLite database, if there is one) and /tmp alone.
# onnxruntime sends telemetry to its maker from 1.29 on unless it is disabled.
ENV PATH=/opt/kvjobs/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ORT_DISABLE_TELEMETRY=1 \
    KVJOBS_HOME=/data \
    KVJOBS_MODELS_DIR=/models
USER 10001:10001
WORKDIR /data
STOPSIGNAL SIGTERM
ENTRYPOINT ["kvjobs"]
CMD ["--help"]
