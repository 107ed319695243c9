"""Several processes on one file."""

import json
import multiprocessing
import os
from functools import partial
from pathlib import Path

import pytest

from echoing import DEADLY, EchoJob
from wenzhen.answering.batch import answer_file
from wenzhen.answering.question_files import QuestionFile
from wenzhen.answering.workers import answer_in_processes
from wenzhen.errors import RunError, UsageError

IN_TWO = partial(answer_in_processes, processes=2)


def write(file: Path, questions: list[str]) -> QuestionFile:
    file.write_text("\n".join(questions), encoding="utf-8")
    return QuestionFile(file)


def test_two_processes_write_what_one_writes(tmp_path: Path) -> None:
    source = write(tmp_path / "questions.txt", [f"第{number}个问题？" for number in range(90)])
    answer_file(EchoJob(), source, tmp_path / "one.jsonl")
    (tmp_path / "ids").mkdir()
    answer_file(EchoJob(tmp_path / "ids", seconds=0.02), source, tmp_path / "two.jsonl", mapper=IN_TWO)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    ids = {int(file.name) for file in (tmp_path / "ids").iterdir()}
    assert len(ids) == 2
    assert os.getpid() not in ids
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_is_told_of_and_costs_no_answer(tmp_path: Path) -> None:
    questions = ["痛"] * 8 + [DEADLY] + ["痛"] * 8
    source = write(tmp_path / "questions.txt", questions)
    message = r"was killed \(SIGKILL\) at questions 9 to 12; .* fewer --processes"
    with pytest.raises(RunError, match=message):
        answer_file(EchoJob(), source, tmp_path / "answers.jsonl", mapper=partial(answer_in_processes, processes=1))
    assert not multiprocessing.active_children()
    # It goes on with the answers to the chunks before.
    rows = (tmp_path / ".answers.jsonl.partial").read_text(encoding="utf-8").splitlines()
    assert [json.loads(row)["question"] for row in rows] == questions[:8]


def test_a_damaged_model_is_told_of_once(tmp_path: Path) -> None:
    source = write(tmp_path / "questions.txt", ["痛"])
    with pytest.raises(UsageError, match=r"^the model is damaged$"):
        answer_file(EchoJob(model="damaged"), source, tmp_path / "answers.jsonl", mapper=IN_TWO)
