"""Making an index of the consultations that a model was trained on, and measuring where its reach ends."""

import hashlib
import json
import random
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from wenzhen.answering.engines import load_engine
from wenzhen.answering.engines.base import Engine
from wenzhen.answering.evidence.calibration import (
    ANSWERED,
    LOOKED_UP,
    QUANTILE,
    probabilities,
    similarities,
    spread,
)
from wenzhen.answering.evidence.index import (
    CONSULTATIONS_FILE,
    CONTENTS,
    MARKS,
    META_FILE,
    POSTINGS,
    VERSION,
    read_table,
)
from wenzhen.answering.evidence.postings import Postings, write_postings
from wenzhen.corpus.loading import load_split
from wenzhen.corpus.schema import question_text
from wenzhen.errors import UsageError
from wenzhen.folders import check_output_folder, hash_file, name_of, published_folder
from wenzhen.models import EVIDENCE
from wenzhen.recipe import RECIPE_FILE, load_recipe

SCHEMA = pa.schema([(name, pa.string()) for name in ("id", "department", "question", "answer")])
# Consultations that are read and written at a time.
BATCH = 10_000


def build_index(model: Path, dataset: Path | None = None, overwrite: bool = False) -> dict[str, Any]:
    """Index the training split of a dataset for a model, and put the index into the model's folder.

    Args:
        model: a model folder, an exported one too.
        dataset: a dataset folder; None for the one that the model's recipe names.
        overwrite: whether an earlier index may be replaced.

    Returns:
        What is written to its meta.json: `consultations`, `words_per_question`, `dataset`, the thresholds
        `least_similarity` and `least_probability`, in `calibration` what they follow from, and versions and hashes.

    Raises:
        UsageError: the model or the dataset cannot be used, or there is an index already.
    """
    mark = next((name for name in MARKS if (model / EVIDENCE / name).is_file()), META_FILE)
    contents = (mark, *CONTENTS)
    check_output_folder(model / EVIDENCE, contents, overwrite)
    engine = load_engine(model)
    recipe = load_recipe(str(model / RECIPE_FILE))
    place = dataset or Path(recipe.data.dataset)
    if not place.is_dir():
        raise UsageError(f"no dataset folder {place}, which the model was trained on; name it with --dataset")
    with_title = recipe.data.with_title
    asked = {split: questions_of(place, split, with_title) for split in ("validation", "test")}
    with published_folder(model / EVIDENCE, contents, overwrite) as draft:
        digest = write_consultations(place, with_title, draft / CONSULTATIONS_FILE)
        table = read_table(draft / CONSULTATIONS_FILE)
        length = write_postings(questions_in(table), table.num_rows, draft / POSTINGS)
        meta = {
            "version": VERSION,
            "consultations": table.num_rows,
            "words_per_question": length,
            "dataset": {"name": name_of(place), "split": "train", "digest": digest, "with_title": with_title},
            **calibrate(Postings(draft / POSTINGS, length), engine, **asked),
            "created_with": {name: metadata.version(name) for name in ("wenzhen", "bm25s", "jieba", "pyarrow")},
            "files": {
                str(file.relative_to(draft)): hash_file(file) for file in sorted(draft.rglob("*")) if file.is_file()
            },
        }
        (draft / META_FILE).write_text(json.dumps(meta, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return meta


def questions_of(dataset: Path, split: str, with_title: bool) -> list[str]:
    """Return questions of a split, at most [`LOOKED_UP`], drawn with a fixed seed."""
    rows = load_split(dataset, split)
    chosen = rows.select(random.Random(0).sample(range(len(rows)), min(LOOKED_UP, len(rows))))
    return [question_text(*both, with_title) for both in zip(chosen["title"], chosen["question"], strict=True)]


def write_consultations(dataset: Path, with_title: bool, file: Path) -> str:
    """Write the training consultations, in order, as an Arrow file.

    Returns:
        A hash of their ids, which are hashes of all that is in them.
    """
    rows = load_split(dataset, "train")
    departments = rows.features["department"].names
    digest = hashlib.sha256()
    with (
        pa.ipc.new_file(str(file), SCHEMA) as writer,
        tqdm(total=len(rows), desc="consultations", disable=None, leave=False) as bar,
    ):
        for batch in rows.iter(BATCH):
            digest.update("\n".join([*batch["id"], ""]).encode())
            texts = [question_text(*both, with_title) for both in zip(batch["title"], batch["question"], strict=True)]
            names = [departments[number] for number in batch["department"]]
            writer.write(pa.record_batch([batch["id"], names, texts, batch["answer"]], schema=SCHEMA))
            bar.update(len(texts))
    return digest.hexdigest()


def questions_in(table: pa.Table) -> Iterator[str]:
    """Yield the questions of a table of consultations, in order."""
    for batch in table.select(["question"]).to_batches(BATCH):
        yield from batch["question"].to_pylist()


def calibrate(postings: Postings, engine: Engine, validation: list[str], test: list[str]) -> dict[str, Any]:
    """Measure from where on a question is covered and the model sure of its answer.

    Returns:
        `least_similarity`, `least_probability` (None where the model wrote nothing), and in `calibration` what they
        follow from, and the share of the `test` questions that are wrongly taken not to be covered.
    """
    similarity = spread(similarities(postings, validation))
    probable = probabilities(engine, validation[:ANSWERED])
    probability = spread(probable) if probable else None
    least = similarity["quantiles"][str(QUANTILE)]
    return {
        "least_similarity": least,
        "least_probability": probability["quantiles"][str(QUANTILE)] if probability else None,
        "calibration": {
            "similarity": similarity,
            "probability": probability,
            "test_questions": len(test),
            "test_share_uncovered": sum(value < least for value in similarities(postings, test)) / len(test),
        },
    }
