"""The figures' font: a subset of Noto Sans CJK SC that comes with the package, then what the machine has."""

from functools import cache
from pathlib import Path

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

FILE = Path(__file__).parent / "WenzhenSans-Regular.otf"
FAMILY = "Wenzhen Sans"
# Where a machine may have the rarer characters.
CHINESE_FAMILIES = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
)
LAST_FAMILY = "DejaVu Sans"
SIGNS = {" ": "␣", "\u3000": "␣", "\t": "→", "\n": "↵", "\r": "↵"}
NO_GLYPH = "□"


@cache
def families() -> list[str]:
    """Return the font families to draw with, in the order in which a character is looked for."""
    # Known to this process only: matplotlib's list of fonts on disk stays as it is.
    font_manager.fontManager.addfont(FILE)
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [FAMILY, *(family for family in CHINESE_FAMILIES if family in installed), LAST_FAMILY]


@cache
def _faces() -> list[FT2Font]:
    return [font_manager.get_font(font_manager.findfont(family)) for family in families()]


def drawable(text: str) -> str:
    """Return a text with signs for white space, and □ for every character that none of the fonts has."""
    signs = (SIGNS.get(character, character) for character in text)
    return "".join(sign if any(face.get_char_index(ord(sign)) for face in _faces()) else NO_GLYPH for sign in signs)
