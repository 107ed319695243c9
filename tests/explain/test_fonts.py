"""The figures' font: every character that the project's own texts hold is drawn."""

import warnings
from importlib import resources
from io import BytesIO
from pathlib import Path

import yaml
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font

from wenzhen.corpus.schema import DEPARTMENTS
from wenzhen.explain import drawing, fonts


def characters(value: object) -> set[str]:
    """Return all characters of the strings in a YAML document."""
    if isinstance(value, dict):
        return characters([*value.keys(), *value.values()])
    if isinstance(value, list):
        return set().union(*map(characters, value))
    return set(str(value))


def knowledge_characters() -> set[str]:
    folder = resources.files("wenzhen.corpus").joinpath("knowledge")
    documents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in folder.iterdir()]
    assert len(documents) == len(DEPARTMENTS)
    return characters(documents) - {"\n"}


def test_our_font_has_them_all() -> None:
    known = FT2Font(str(fonts.FILE)).get_charmap()
    assert {c for c in knowledge_characters().union(*DEPARTMENTS) if ord(c) not in known} == set()
    chinese = [code for code in known if 0x4E00 <= code <= 0x9FFF]
    assert len(chinese) == 6763
    assert Path(fonts.FILE).stat().st_size < 3_000_000


def test_nothing_is_missing_when_drawn() -> None:
    texts = ["".join(DEPARTMENTS), "".join(sorted(knowledge_characters())), fonts.drawable("龘😀a\u0301 \n\t￿")]
    with warnings.catch_warnings(), drawing.style():
        warnings.simplefilter("error")
        figure = Figure()
        for line, text in enumerate(texts):
            figure.text(0, line / 3, text, parse_math=False)
        for kind in ("svg", "png"):
            figure.savefig(BytesIO(), format=kind)


def test_what_no_font_has_becomes_a_box() -> None:
    assert fonts.drawable("咳 嗽\n￿") == "咳␣嗽↵□"


def test_our_font_comes_first() -> None:
    assert fonts.families()[0] == "Wenzhen Sans"
    assert fonts.families()[-1] == "DejaVu Sans"


def test_licence_travels_with_the_font() -> None:
    folder = resources.files("wenzhen.explain.fonts")
    assert "SIL OPEN FONT LICENSE Version 1.1" in folder.joinpath("OFL.txt").read_text(encoding="utf-8")
