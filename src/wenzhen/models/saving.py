"""Writing a model with its code beside it, so that whoever has not installed the package can load it too."""

from pathlib import Path

from transformers import PreTrainedModel


def save_with_code(model: PreTrainedModel, folder: Path) -> None:
    """Write a model's weights, configurations and the Python files of its classes, which `auto_map` then names.

    Args:
        model: of one of our families.
        folder: where the files go; it exists.
    """
    auto_class = "AutoModelForSeq2SeqLM" if model.can_generate() else "AutoModelForSequenceClassification"
    # What an earlier folder named there is neither ours nor written here.
    model.config.auto_map = None
    try:
        type(model.config).register_for_auto_class()
        type(model).register_for_auto_class(auto_class)
        model.save_pretrained(folder)
    finally:
        # The classes keep it: checkpoints would get the code too, and loading would take them for foreign ones.
        type(model.config)._auto_class = type(model)._auto_class = None
    for file in folder.glob("*.safetensors"):
        # Written for its owner alone, unlike everything beside it.
        file.chmod((folder / "config.json").stat().st_mode)
