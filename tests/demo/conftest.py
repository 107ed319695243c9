"""The demo of one small model, served for all of its tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.furnished import furnished
from wenzhen.answering.answerer import Answerer


@pytest.fixture(scope="session")
def answerer(model_folder: Path) -> Answerer:
    return furnished(model_folder)


@pytest.fixture(scope="session")
def gradio_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which Gradio would keep what it keeps."""
    folder = tmp_path_factory.mktemp("gradio")
    os.environ["GRADIO_TEMP_DIR"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def demo(answerer: Answerer, gradio_folder: Path) -> Iterator[Any]:
    """Return the page, which is being served."""
    from wenzhen.demo.main import serve
    from wenzhen.demo.page import build_page

    page = build_page([answerer])
    serve(page)
    yield page
    page.close()


@pytest.fixture(scope="session")
def url(demo: Any) -> str:
    return str(demo.local_url).rstrip("/")
