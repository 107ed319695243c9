# The demo on a server of one's own:
#   docker build --tag wenzhen .
#   docker run --publish 7860:7860 --volume "$PWD/outputs/quickstart:/home/wenzhen/model:ro" wenzhen
# The folder may also be an export (wenzhen export), or the `model` of a Space (wenzhen push-space MODEL OWNER/NAME
# --dry-run FOLDER), which holds nothing but what answering needs.
FROM python:3.11-slim

# The page is all that runs here, and it writes nothing: no root, no caches.
RUN useradd --create-home --uid 1000 wenzhen
WORKDIR /home/wenzhen

# A package index that has builds of PyTorch for CPUs alone makes the image gigabytes smaller:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL
COPY LICENSE README.md constraints.txt pyproject.toml source/
COPY src source/src
RUN pip install --no-cache-dir --constraint source/constraints.txt ./source && rm --recursive source
COPY app.py .

USER wenzhen
# The network is for visitors alone.
ENV HF_HUB_OFFLINE=1 \
    GRADIO_ANALYTICS_ENABLED=False \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860
EXPOSE 7860
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/', timeout=5)"]
CMD ["python", "app.py"]
