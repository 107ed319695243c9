"""Building a dataset as a user does: flags in, printed lines, exit codes and a folder out."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_scripts import build_dataset
from datasets import load_from_disk

from helpers import ROOT
from wenzhen.corpus.schema import DEPARTMENTS, SOURCE_FILES
from wenzhen.errors import run

STEPS = "control, html, spaces, no_question, contacts, duplicates, near_duplicates"
FIELDS = "department, sub_department, title, question, answer"

Row = dict[str, str]


def plain_rows(count: int) -> list[Row]:
    return [{"instruction": f"第{n}个问题", "output": f"第{n}个回答"} for n in range(count)]


def write_json_lines(file: Path, rows: list[Row], encoding: str = "utf-8") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding=encoding)
    return file


def write_departments(folder: Path) -> Path:
    """Write ten records for each department in the original's layout: 7 good, 1 duplicate, 1 cut, 1 without answer."""
    for department, name in SOURCE_FILES.items():
        file = folder / "Data_数据" / name
        file.parent.mkdir(parents=True)
        rows = [["科", f"{department}题{n}", f"{department}第{n}问", f"{department}第{n}答"] for n in range(7)]
        rows[0][2] = "无"
        rows[1][3] += "<br>祝好"
        rows[2][3] += "，电话13800138000"
        rows += [rows[3], ["科", "题", "问"], ["科", "题", "问", ""]]
        with file.open("w", encoding="gb18030", newline="") as lines:
            csv.writer(lines).writerows([["department", "title", "ask", "answer"], *rows])
    write_json_lines(folder / "more.jsonl", plain_rows(2))
    return folder


def command(*words: object) -> int:
    return run(build_dataset.main, list(map(str, words)))


def report_of(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def test_the_corpus_of_the_thesis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_departments(tmp_path / "my records")
    monkeypatch.chdir(tmp_path)
    assert command("--input", source, "--output", "my dataset", "--validation-share", 0.2) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    # Of 7 records of a department 2 go to test and 1 of the other 5 to validation.
    assert lines[:9] == [
        "60 records read = 42 kept + 18 rejected",
        "rejected: 6 duplicate",
        "rejected: 6 wrong number of fields",
        "rejected: 6 empty answer",
        "cleaned: 6 html",
        "cleaned: 6 no question",
        "cleaned: 6 contacts",
        "ignored: more.jsonl (no readable file, or in no department's folder)",
        "train 24, validation 6, test 12",
    ]
    assert lines[9] == "in test and train: 0 questions, 0 answers, 0 near duplicates (this split)"
    assert lines[10].startswith("in test and train: ") and lines[10].endswith(" near duplicates (a random split)")
    assert lines[11:] == ["dataset: my dataset  (report.md, rejects.jsonl)"]
    assert "Traceback" not in output.err
    assert {path.name for path in Path("my dataset").iterdir()} == {
        *("train", "validation", "test", "dataset_dict.json", "report.json", "report.md", "rejects.jsonl", "figures"),
    }
    assert report_of(Path("my dataset"))["departments"] == dict.fromkeys(DEPARTMENTS, 7)


def test_every_flag_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = plain_rows(40)
    rows[0]["output"] = "答" * 21
    rows[1]["instruction"] = "问" * 11
    rows[2]["output"] += "&nbsp;&hellip;"
    rows[3]["output"] += "电话13800138000"
    source = write_json_lines(tmp_path / "source.jsonl", [*rows, rows[4]], "gb18030")
    output = tmp_path / "dataset"
    output.mkdir()
    assert (
        command(
            *("--input", source, "--output", output, "--overwrite", "--encoding", "gb18030"),
            *("--columns", " question=instruction, answer = output ,", "--department", "皮肤科"),
            *("--skip", "html, contacts", "--max-question-length", 10, "--max-answer-length", 18, "--drop-long"),
            *("--split", "random", "--test-share", 0.5, "--validation-share", 0.25, "--seed", 7),
        )
        == 0
    )
    report = report_of(output)
    # The entities count by their letters: 5 + 6 + 8 characters.
    assert (report["read"], report["rejected"]) == (41, {"too long": 3})
    assert report["splits"] == {"train": 14, "validation": 5, "test": 19}
    assert report["departments"]["皮肤科"] == 38
    assert report["files"] == [{"file": "source.jsonl", "encoding": "gb18030", "records": 41, "kept": 38}]
    assert report["split"] == {
        "method": "random",
        "test_share": 0.5,
        "validation_share": 0.25,
        "near_duplicates": 0.8,
    }
    assert (report["seed"], report["too_long"]) == (7, {"question": 10, "answer": 18, "records": 0})
    assert (report["cleaning"]["html"], report["cleaning"]["contacts"]) == (None, None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "41 records read = 38 kept + 3 rejected",
        "rejected: 3 too long",
        "not cleaned: html",
        "not cleaned: contacts",
    ]
    texts = {row["answer"] for split in load_from_disk(str(output)).values() for row in split}
    assert "第3个回答电话13800138000" in texts


def test_every_step_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_json_lines(tmp_path / "source.jsonl", [*plain_rows(30), *plain_rows(1)])
    words = ("--columns", "question=instruction,answer=output", "--department", "内科", "--skip", STEPS)
    assert command("--input", source, "--output", tmp_path / "dataset", *words) == 0
    report = report_of(tmp_path / "dataset")
    assert set(report["cleaning"].values()) == {None}
    assert (report["kept"], report["duplicates"]) == (31, {"exact": 1, "grouped": 0, "near": None})
    assert capsys.readouterr().out.splitlines()[1:7] == [
        *(f"not cleaned: {step}" for step in STEPS.split(", ")[:5]),
        "train 21, validation 1, test 9",
    ]


def test_a_parquet_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"科室": ["眼科"] * 30, "问题": [f"第{n}问" for n in range(30)], "回答": [f"第{n}答" for n in range(30)]}
    pq.write_table(pa.table(columns), tmp_path / "source.parquet")
    assert command("--input", tmp_path / "source.parquet", "--output", tmp_path / "dataset") == 0
    assert capsys.readouterr().out.startswith(
        "30 records read = 30 kept + 0 rejected\ntrain 20, validation 1, test 9\n"
    )
    assert report_of(tmp_path / "dataset")["departments"]["眼科"] == 30


def test_an_earlier_dataset_stays_unless_it_is_to_be_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_json_lines(tmp_path / "source.jsonl", plain_rows(30))
    words = (
        *("--input", source, "--output", tmp_path / "dataset", "--department", "内科"),
        *("--columns", "question=instruction,answer=output"),
    )
    assert command(*words) == 0
    capsys.readouterr()
    assert command(*words, "--seed", 1) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        f"error: the output folder {tmp_path / 'dataset'} already holds a result; add --overwrite to replace it\n"
    )
    assert report_of(tmp_path / "dataset")["seed"] == 42
    assert command(*words, "--seed", 1, "--overwrite") == 0
    assert report_of(tmp_path / "dataset")["seed"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--test-share", "0"], "--test-share must be between 0 and 1, got 0.0"),
        (["--test-share", "1"], "--test-share must be between 0 and 1, got 1.0"),
        (["--test-share", "nan"], "--test-share must be between 0 and 1, got nan"),
        (["--validation-share", "-0.1"], "--validation-share must be between 0 and 1, got -0.1"),
        (["--max-question-length", "0"], "--max-question-length must be at least 1, got 0"),
        (["--max-answer-length", "-3"], "--max-answer-length must be at least 1, got -3"),
        (["--private"], "--private is for --push"),
        (["--department", " "], "--department is empty"),
        (["--skip", "html,tags"], f"--skip knows no step tags; the steps are: {STEPS}"),
        (["--columns", "question"], f"--columns got `question`; expected FIELD=COLUMN with a field of: {FIELDS}"),
        (["--columns", "ask=a"], f"--columns got `ask=a`; expected FIELD=COLUMN with a field of: {FIELDS}"),
        (["--columns", "answer="], f"--columns got `answer=`; expected FIELD=COLUMN with a field of: {FIELDS}"),
        (["--columns", "answer=a,answer=b"], "--columns names the field answer twice"),
        (["--encoding", "utf-16"], "--encoding utf-16 cannot be read; give one that keeps ASCII bytes as they are"),
        (["--encoding", "klingon"], "--encoding klingon cannot be read; give one that keeps ASCII bytes as they are"),
        (["--columns", "question=nothing"], "has no column `nothing`; its columns are: instruction, output"),
        ([], "has no column `ask` or `question` or `问题`; its columns are: instruction, output"),
        (["--columns", "question=instruction,answer=output"], "give --department NAME"),
        (["--push", "no-name"], "no-name"),
        (["--push", "somebody/records"], "HF_HUB_OFFLINE is set"),
    ],
)
def test_flags_that_cannot_be_meant(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_json_lines(tmp_path / "source.jsonl", plain_rows(30))
    assert command("--input", source, "--output", tmp_path / "dataset", *words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    [line] = output.err.splitlines()
    assert line.startswith("error: ") and message in line
    assert [path.name for path in tmp_path.iterdir()] == ["source.jsonl"]


def test_inputs_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    few = write_json_lines(tmp_path / "few.jsonl", [{"question": "问", "answer": "答"}])
    none = write_json_lines(tmp_path / "none.jsonl", [{"question": "问", "answer": ""}])
    words = ("--output", tmp_path / "dataset", "--department", "内科")
    for source, message in (
        (tmp_path / "missing", f"the input {tmp_path / 'missing'} is neither a file nor a folder"),
        (tmp_path / "empty", f"{tmp_path / 'empty'} holds no file of the kinds .csv, .jsonl, .parquet"),
        (tmp_path / "notes.txt", f"{tmp_path / 'notes.txt'} is not one of .csv, .jsonl, .parquet"),
        (few, "1 records, which hang together in 1 groups by what they ask and answer, are too few to split"),
        (none, "no record can be kept: 1 empty answer"),
    ):
        assert command("--input", source, *words) == 2
        output = capsys.readouterr()
        [line] = [line for line in output.err.splitlines() if line.startswith("error: ")]
        assert message in line
        assert (output.out, "Traceback" in output.err) == ("", False)
    assert not (tmp_path / "dataset").exists()


def test_without_input_there_is_nothing_to_do_but_to_push(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--output", tmp_path / "dataset") == 2
    assert capsys.readouterr().err == "error: give --input, or --push to push a dataset that is built already\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--split", "stratified"], "invalid choice: 'stratified'"),
        (["--seed", "x"], "invalid int value: 'x'"),
        (["--test-share", "a third"], "invalid float value: 'a third'"),
        (["--max-answer-length", "1.5"], "invalid int value: '1.5'"),
        (["--drop"], "--output"),
    ],
)
def test_flags_that_cannot_be_parsed(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = [] if words == ["--drop"] else ["--output", "x"]
    with pytest.raises(SystemExit) as error:
        command("--input", "x", *output, *words)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_as_a_process_of_its_own(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "data_scripts/build_dataset.py")]
    source = write_json_lines(tmp_path / "source.jsonl", plain_rows(30))
    words = ["--input", str(source), "--output", str(tmp_path / "dataset"), "--department", "内科"]
    failed = subprocess.run([*script, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("error: ") and failed.stderr.count("\n") == 1
    words += ["--columns", "question=instruction,answer=output"]
    built = subprocess.run([*script, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    assert built.stdout.endswith(f"dataset: {tmp_path / 'dataset'}  (report.md, rejects.jsonl)\n")


def test_help_needs_no_model_library() -> None:
    code = "import sys; from data_scripts import build_dataset; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not {"torch", "transformers", "gradio", "matplotlib"} & set(modules.split())
