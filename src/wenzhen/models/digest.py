"""Which model it is, by its content."""

import hashlib
from pathlib import Path

from wenzhen.folders import hash_file
from wenzhen.models import EXPORTED_WEIGHTS, MODEL_FILES
from wenzhen.recipe import RECIPE_FILE

WEIGHTS = (EXPORTED_WEIGHTS, "model.safetensors")
# What else a model's answers depend on, and how its recipe has it asked.
DETERMINANTS = (*WEIGHTS, *MODEL_FILES, "shared_vocabulary.json", RECIPE_FILE)


def model_digest(folder: Path) -> str:
    """Return a hash of all files that a model's answers depend on, in hexadecimal digits."""
    whole = hashlib.sha256()
    for name in dict.fromkeys(DETERMINANTS):
        if (folder / name).is_file():
            whole.update(name.encode() + bytes.fromhex(hash_file(folder / name)))
    return whole.hexdigest()
