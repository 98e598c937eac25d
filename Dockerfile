# syntax=docker/dockerfile:1
# One image for every process of a fleet: `docker build -t kvjobs .`
# For an NVIDIA GPU: --build-arg ONNXRUNTIME='onnxruntime-gpu[cuda,cudnn]'. CUDA then comes as Python packages, and the
# NVIDIA Container Toolkit of the host brings the driver, so that the base stays the same small one.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
ARG EXTRAS=postgres
ARG ONNXRUNTIME=onnxruntime
WORKDIR /source
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheel .
RUN python -m venv /opt/kvjobs && /opt/kvjobs/bin/pip install "$(echo /wheel/kvjobs-*.whl)[${EXTRAS}]"
# Both bring the package `onnxruntime`, so the one has to go before the other comes.
RUN if [ "${ONNXRUNTIME}" != onnxruntime ]; then \
        /opt/kvjobs/bin/pip uninstall --yes onnxruntime && /opt/kvjobs/bin/pip install "${ONNXRUNTIME}"; \
    fi

FROM ${BASE}
LABEL org.opencontainers.image.title="kvjobs" \
      org.opencontainers.image.description="Bulk translation of whole corpora in the background" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/kvjobs /opt/kvjobs
# onnxruntime looks for CUDA where the loader looks; the Python packages put it into folders of their own.
RUN find /opt/kvjobs/lib -path '*/nvidia/*' -type d -name lib > /etc/ld.so.conf.d/kvjobs.conf && ldconfig \
    && groupadd --gid 10001 kvjobs \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin kvjobs \
    && install --directory --owner=10001 --group=10001 /data /models
# The root file system may be read-only: only /data (a SQLite database, if there is one) and /tmp are written to.
# onnxruntime 1.29 and newer reports its use to its maker, unless it is told not to.
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
