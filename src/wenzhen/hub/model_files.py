"""What is published of a model folder."""

import shutil
from pathlib import Path

from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.hub.model_card import model_card, public_recipe, read_object
from wenzhen.models import DATASET_REPORT, FIGURE, LOG_FILE, METRICS_FILE
from wenzhen.models.saving import save_with_code
from wenzhen.tokenization import save_tokenizer

# What goes along as it is from a model folder. The predictions never do: they hold what people asked.
COMPANIONS = (METRICS_FILE, LOG_FILE, FIGURE)
# What an earlier push may have left in the repository that this one has no more.
REPLACED = (*COMPANIONS, "figures/*.png", "*.py", "*.safetensors")


def write_files(folder: Path, scratch: Path, repository: str) -> dict[str, Path | bytes]:
    """Write everything that is published of a model folder, the model itself as this package writes it.

    Args:
        folder: a model folder.
        scratch: an empty folder.
        repository: `OWNER/NAME`, for the card.

    Returns:
        The files by their paths in the repository.

    Raises:
        UsageError: weights, configuration and tokenizer do not belong together, or a file is damaged.
    """
    engine = PyTorchEngine(folder)
    save_with_code(engine.model, scratch)
    save_tokenizer(engine.tokenizer, scratch)
    public_recipe(folder).save(scratch)
    for name in COMPANIONS:
        if (folder / name).is_file():
            (scratch / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / name, scratch / name)
    card = model_card(scratch, repository, read_object(folder / DATASET_REPORT)).encode()
    written = {path.relative_to(scratch).as_posix(): path for path in sorted(scratch.rglob("*")) if path.is_file()}
    return {"README.md": card, **written}
