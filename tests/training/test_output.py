"""What a new run does with what lies in its output folder."""

from collections.abc import Callable
from pathlib import Path

from wenzhen.folders import check_output_folder
from wenzhen.recipe import Recipe
from wenzhen.training.output import CONTENTS, prepare_output_folder


def test_index_and_classifier_of_an_earlier_model_go_with_it(
    make_recipe: Callable[..., Recipe], tmp_path: Path
) -> None:
    output = tmp_path / "model"
    recipe = make_recipe(f"output={output}")
    prepare_output_folder(output, recipe, resume=False)
    for name in ("evidence/postings", ".evidence.draft-12345678/new", "departments/checkpoints"):
        (output / name).mkdir(parents=True)
        (output / name / "file").touch()
    check_output_folder(output, CONTENTS, overwrite=True)
    prepare_output_folder(output, recipe, resume=False)
    assert [path.name for path in output.iterdir()] == ["recipe.yaml"]
