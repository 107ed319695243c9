"""`wenzhen train`."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from wenzhen.cli.arguments import Verbs
from wenzhen.errors import RunError, UsageError
from wenzhen.models import CHECKPOINTS


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "train",
        help="train a model by a recipe",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=settings_help(),
    )
    parser.add_argument("recipe", metavar="RECIPE", help="a YAML file, or the name of one in recipes/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings that win over the recipe's")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint of an interrupted run")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier model in the output folder")
    parser.set_defaults(run=run)


def settings_help() -> str:
    """List every setting of a recipe with its meaning and default."""
    from dataclasses import MISSING
    from typing import Literal, get_args, get_origin

    from wenzhen.recipe import settings

    lines = ["settings:"]
    for key, member, hint in settings():
        default = "required" if member.default is MISSING else f"default: {yaml_word(member.default)}"
        choices = " | ".join(map(yaml_word, get_args(hint))) if get_origin(hint) is Literal else ""
        lines.append(f"  {key:<42}{member.metadata['meaning']} ({f'{choices}; ' if choices else ''}{default})")
    return "\n".join(lines)


def yaml_word(value: Any) -> str:
    """Write a value as a recipe has it."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def run(arguments: argparse.Namespace) -> int:
    """Train, and measure what came out where the recipe asks for it."""
    from wenzhen.recipe import load_recipe

    if arguments.resume and arguments.overwrite:
        raise UsageError("can't both --resume and --overwrite; choose one")
    recipe = load_recipe(arguments.recipe, arguments.overrides)

    from wenzhen.training.durable import is_lost_process
    from wenzhen.training.interruption import Interrupted
    from wenzhen.training.output import is_unfinished
    from wenzhen.training.run import train

    try:
        output = train(recipe, resume=arguments.resume, overwrite=arguments.overwrite)
    except Interrupted as stop:
        if os.environ.get("RANK", "0") == "0":
            print(f"{stop}; the same command with --resume goes on from there", file=sys.stderr)
        return 128 + stop.number
    except (KeyboardInterrupt, SystemExit):
        if is_unfinished(Path(recipe.output)) and any((Path(recipe.output) / CHECKPOINTS).glob("checkpoint-*")):
            print("stopped; the same command with --resume goes on from the newest checkpoint", file=sys.stderr)
        raise
    except RuntimeError as error:
        if not is_lost_process(error):
            raise
        raise RunError("another process of the run has ended; its own message says why") from error
    if os.environ.get("RANK", "0") != "0":
        return 0
    made = ["training_log.jsonl", "figures/loss.png"]
    if recipe.evaluation.questions:
        from wenzhen.cli.evaluate import measure

        measure(output, output, split="validation", limit=recipe.evaluation.questions, floors=False)
        made.append("metrics.json")
    if recipe.task == "answer":
        made.append("README.md")
        if not recipe.evaluation.questions:
            from wenzhen.hub.model_card import write_model_card

            write_model_card(output)
    print(f"model: {output}  ({', '.join(made)})")
    return 0
