"""The demo's command: finds the models, loads them and serves the page."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenzhen.errors import UsageError

if TYPE_CHECKING:
    import gradio as gr

# Where a Space has its model.
SPACE_MODEL = "model"
DEFAULT_MODEL = "outputs/quickstart"
# Of a model on the Hub, what answering needs; its code is never wanted.
FILES = (
    "*.json",
    "*.safetensors",
    "model.bin",
    "recipe.yaml",
    "safety.yaml",
    "README.md",
    "evidence/*",
    "departments/*",
)
# A telephone has no room to give away. Gradio applies a style sheet to what stands inside this margin alone.
NARROW = (
    "<style>@media (max-width: 600px) { .gradio-container .fillable { padding-inline: 0.75rem !important; } }</style>"
)
SHARE_WARNING = (
    "--share: anyone with the link can ask this machine for 72 hours; questions and answers pass through Gradio's "
    "servers"
)


def default_model() -> str:
    """Return the model of an environment: $WENZHEN_MODEL, a Space's own, or the quickstart's."""
    return os.environ.get("WENZHEN_MODEL") or (SPACE_MODEL if Path(SPACE_MODEL).is_dir() else DEFAULT_MODEL)


def build_parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    parser = argparse.ArgumentParser(description="Serve a trained model as a web page.")
    parser.add_argument(
        "--model",
        action="append",
        metavar="FOLDER|OWNER/NAME[@REVISION]",
        help="a model folder, or a model on the Hub; give it twice to compare two "
        "(default: $WENZHEN_MODEL, else ./model, else outputs/quickstart)",
    )
    parser.add_argument("--host", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, help="port (default: the first free one from 7860)")
    parser.add_argument("--share", action="store_true", help="also open a public link, with a warning about it")
    return parser


def main(argv: Sequence[str]) -> int:
    """Load the models and serve the page until it is stopped."""
    arguments = build_parser().parse_args(argv)
    models = arguments.model or [default_model()]
    if len(models) > 2:
        raise UsageError(f"--model can be given twice, to compare two, got {len(models)}")
    # A Space has no command line on which anybody would read what is wrong.
    on_page = "SPACE_ID" in os.environ or (not arguments.model and "WENZHEN_MODEL" in os.environ)
    page = load_page(models, on_page)
    if arguments.share:
        print(SHARE_WARNING, flush=True)
    _, url, shared = serve(page, server_name=arguments.host, server_port=arguments.port, share=arguments.share)
    print(f"demo: {url}  (Ctrl-C stops it)", *([f"public: {shared}"] if shared else []), sep="\n", flush=True)
    page.block_thread()
    return 0


def load_page(models: Sequence[str], on_page: bool = False) -> "gr.Blocks":
    """Return the page of models; one that says what is missing where `on_page` wants it there.

    Raises:
        UsageError: a model is missing or damaged, and `on_page` is off.
    """
    from wenzhen.answering.answerer import Answerer
    from wenzhen.demo.page import build_page, explanation_page
    from wenzhen.models.locating import find_model

    try:
        answerers = [
            # A model of the Hub lies in a folder that is named by its commit.
            Answerer(find_model(model, FILES), name=None if Path(model).exists() else model)
            for model in models
        ]
    except UsageError as error:
        if not on_page:
            raise
        print(f"error: {error}", file=sys.stderr)
        return explanation_page(str(error))
    for answerer in answerers:
        # Much is loaded when a model first writes: nobody should wait for it.
        list(answerer.engine.stream("你好"))
    return build_page(answerers)


def serve(page: "gr.Blocks", **where: Any) -> Any:
    """Serve the page: nothing of a visitor's questions is kept, printed, shown, counted or sent anywhere.

    Args:
        page: see [`load_page`].
        where: Gradio's settings of `launch` for the address.

    Returns:
        What `launch` returns: the application, its address and its public link.
    """
    from wenzhen.demo.failures import hush_libraries

    hush_libraries()
    return page.launch(**launch_settings(), **where)


def launch_settings() -> dict[str, Any]:
    """Return how the page is served wherever it is."""
    from wenzhen.demo.gate import gate
    from wenzhen.demo.page import STYLE

    return {
        "theme": theme(),
        "css_paths": STYLE,
        "head": NARROW,
        "footer_links": [],
        "run_history": False,
        "enable_monitoring": False,
        "max_file_size": 0,
        # Of visitors whose page Gradio remembers: what was shown there is in it. Nothing of ours rests on it.
        "state_session_capacity": 64,
        "show_error": False,
        "ssr_mode": False,
        "quiet": True,
        "prevent_thread_lock": True,
        "app_kwargs": {"middleware": [gate()]},
    }


def theme() -> "gr.Theme":
    """Return the page's colours, and fonts that nobody has to fetch."""
    import gradio as gr

    fonts = ("system-ui", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", "sans-serif")
    default = gr.themes.Default(primary_hue="teal", font=fonts, font_mono=("ui-monospace", "monospace"))
    return default.set(
        body_text_color_subdued="*neutral_600",
        block_info_text_color="*neutral_600",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
    )
