# understudy in a container: the studio by default, any command if one is given. docs/installing.md says how to run it.
FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/understudy \
    && /opt/understudy/bin/pip install --no-cache-dir --disable-pip-version-check .

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.title="understudy" \
      org.opencontainers.image.description="Synthetic tables under differential privacy" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --create-home --uid 10001 understudy \
    && mkdir /data \
    && chown understudy /data
COPY --from=build /opt/understudy /opt/understudy
ENV PATH="/opt/understudy/bin:$PATH" PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
ENTRYPOINT ["understudy"]
CMD ["studio", "--no-browser", "--port", "8765"]
