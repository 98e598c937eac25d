# One image for every process of a fleet: `docker build -t kvjobs .`
# For an NVIDIA GPU: --build-arg ONNXRUNTIME='onnxruntime-gpu[cuda,cudnn]'. CUDA is then installed as Python packages,
# and the host's NVIDIA Container Toolkit mounts the driver, so the small base image suffices.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
ARG EXTRAS=postgres
ARG ONNXRUNTIME=onnxruntime
RUN apt-get update && apt-get install --yes --no-install-recommends binutils
WORKDIR /source
COPY pyproject.toml constraints.txt ./
# uv, whose own hashes pip checks, checks those of all others.
RUN awk '/^[^ ]/ {is_uv = /^uv==/} is_uv' constraints.txt > /tmp/uv.txt \
    && pip install --no-cache-dir --root-user-action=ignore --require-hashes --requirement /tmp/uv.txt
ENV UV_CONSTRAINT=/source/constraints.txt UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=/opt/kvjobs
# What the wheel is built with (ziglang compiles the kernels) and what kvjobs needs come before the source, so that a
# changed line installs none of it again.
RUN uv venv /opt/build && uv pip install --python /opt/build hatchling ziglang
RUN uv venv /opt/kvjobs \
    && uv pip install --requirement pyproject.toml $(echo "${EXTRAS}" | tr , '\n' | sed 's/./--extra &/')
# Both distributions contain the package `onnxruntime`: uninstall one before installing the other.
RUN if [ "${ONNXRUNTIME}" != onnxruntime ]; then uv pip uninstall onnxruntime && uv pip install "${ONNXRUNTIME}"; fi
# Symbols for debuggers and the packages' own tests, 55 MB that no process reads. Libraries that auditwheel has changed
# (*.libs) keep theirs: strip could break them.
RUN find /opt/kvjobs -name '*.so*' -type f ! -path '*.libs/*' ! -path '*/nvidia/*' -exec strip --strip-debug {} + \
    && find /opt/kvjobs -type d \( -name tests -o -path '*/onnx/backend/test' \) -prune -exec rm -r {} +
COPY . .
RUN /opt/build/bin/python -m hatchling build --target wheel --directory /wheel && uv pip install --no-deps /wheel/*.whl
# Bytecode of what commands, workers and the dashboard import, and of nothing else (28 MB): a container whose root is
# read-only could not write it.
RUN export KVJOBS_HOME=/tmp/home PATH=/opt/kvjobs/bin:${PATH} ORT_DISABLE_TELEMETRY=1 \
    && echo 'Snow falls.' | kvjobs submit - --format txt --wait \
    && python -c 'import celery.app.amqp, jobs.web.app, kombu.transport.redis, psycopg, worker.fleet.hint_exchange'

FROM ${BASE}
LABEL org.opencontainers.image.title="kvjobs" \
      org.opencontainers.image.description="Bulk translation of whole corpora in the background" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 kvjobs \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin kvjobs \
    && install --directory --owner=10001 --group=10001 /data /models
COPY --from=build /opt/kvjobs /opt/kvjobs
# onnxruntime finds CUDA through the dynamic loader; the Python packages install it into folders of their own.
RUN find /opt/kvjobs/lib -path '*/nvidia/*' -type d -name lib > /etc/ld.so.conf.d/kvjobs.conf && ldconfig
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
