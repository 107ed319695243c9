"""The demo's command."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from wenzhen.demo import main as demo
from wenzhen.errors import UsageError, run
from wenzhen.hub.space import APP


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WENZHEN_MODEL", "SPACE_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_missing_model_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(demo.main, ["--model", str(tmp_path / "nothing")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: no model folder") and error.count("\n") == 1


def test_three_models_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(demo.main, ["--model", "a", "--model", "b", "--model", "c"]) == 2
    assert "got 3" in capsys.readouterr().err


def test_missing_model_is_explained_on_a_spaces_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = demo.load_page([str(tmp_path / "<nothing>")], on_page=True)
    shown = "".join(str(component["props"].get("value")) for component in page.config["components"])
    assert "WENZHEN_MODEL" in shown and "&lt;nothing&gt;" in shown
    assert "no model folder" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no model folder"):
        demo.load_page([str(tmp_path / "nothing")])


def test_model_is_found_by_the_environment_then_beside_the_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demo.default_model() == "outputs/quickstart"
    (tmp_path / "model").mkdir()
    assert demo.default_model() == "model"
    monkeypatch.setenv("WENZHEN_MODEL", "somebody/model@v1")
    assert demo.default_model() == "somebody/model@v1"


def test_two_models_stand_side_by_side(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = demo.load_page([str(model_folder), str(model_folder)])
    kinds = [c["props"]["value"] for c in page.config["components"] if c["type"] == "radio"]
    assert kinds == ["own", "own", "own"]


def test_public_link_is_warned_about(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Page:
        def launch(self, **settings: Any) -> tuple[None, str, str]:
            assert settings["share"] is True
            assert settings.get("allowed_paths") is None
            return None, "http://127.0.0.1:1/", "https://public/"

        def block_thread(self) -> None:
            pass

    monkeypatch.setattr(demo, "load_page", lambda models, on_page: Page())
    assert demo.main(["--share"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("--share: anyone with the link") and "https://public/" in printed


def test_help_needs_no_heavy_library() -> None:
    code = (
        "import sys; from wenzhen.demo.main import build_parser; build_parser().format_help();"
        "print({'torch', 'gradio', 'transformers'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout == "set()\n"


def test_project_and_space_start_the_demo_by_the_same_file() -> None:
    assert (ROOT / "app.py").read_text(encoding="utf-8") == APP
