"""Files of answers: complete, in order and nothing twice, whatever comes between."""

import json
import os
import random
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from echoing import EchoJob
from processes import PROCESSES
from wenzhen.answering.answer_files import begun
from wenzhen.answering.batch import answer_file, print_answers
from wenzhen.answering.chunks import Answered, Job, answer_here
from wenzhen.answering.question_files import Place, QuestionFile
from wenzhen.errors import RunError, UsageError


@pytest.fixture
def source(tmp_path: Path) -> QuestionFile:
    """Return a file of 50 questions, two of them empty."""
    lines = [json.dumps({"id": number, "question": f"第{number}个问题？"}) for number in range(50)]
    lines[7] = lines[30] = '{"id": "empty", "question": " "}'
    (tmp_path / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return QuestionFile(tmp_path / "questions.jsonl")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out" / "answers.jsonl"


@pytest.fixture
def whole(source: QuestionFile, tmp_path: Path) -> bytes:
    """Return what a run writes that nothing disturbs."""
    answer_file(EchoJob(), source, tmp_path / "whole.jsonl")
    return (tmp_path / "whole.jsonl").read_bytes()


def stopping(after: int, error: BaseException):
    """Return what answers so many chunks, and then fails."""

    def mapper(job: Job, source: QuestionFile, start: Place) -> Iterator[Answered]:
        for number, answered in enumerate(answer_here(job, source, start)):
            if number == after:
                raise error
            yield answered

    return mapper


def drafts(output: Path) -> list[Path]:
    return sorted(output.parent.glob(".answers*"))


def test_rows_come_in_order_and_bad_ones_cost_themselves_alone(source: QuestionFile, output: Path) -> None:
    assert answer_file(EchoJob(), source, output) == 2
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    asked = [json.loads(line) for line in source.path.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == [question["id"] for question in asked]
    assert [number for number, row in enumerate(rows) if "error" in row] == [7, 30]
    assert all(row["text"] == f"答：{row['question']}" and row["notice"] for row in rows if "error" not in row)
    assert drafts(output) == []


def test_printed_rows_are_those_of_a_file(
    source: QuestionFile, whole: bytes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert print_answers(EchoJob(), source) == 2
    assert capfdbinary.readouterr().out == whole


def test_a_run_goes_on_wherever_its_files_were_torn(source: QuestionFile, output: Path, whole: bytes) -> None:
    with pytest.raises(RunError):
        answer_file(EchoJob(), source, output, mapper=stopping(8, RunError("full")))
    (journal, partial) = drafts(output)
    assert partial.read_bytes() == b"".join(whole.splitlines(keepends=True)[:32])
    left = {file: file.read_bytes() for file in (journal, partial)}
    random.seed(0)
    for _ in range(60):
        for file, content in left.items():
            file.write_bytes(content[: random.choice([len(content), random.randint(0, len(content))])])
        assert answer_file(EchoJob(), source, output) == 2
        assert output.read_bytes() == whole
        assert drafts(output) == []
        output.unlink()


@pytest.mark.parametrize(
    ("error", "said"), [(KeyboardInterrupt(), True), (SystemExit(143), True), (RunError(), False)]
)
def test_what_is_answered_before_an_end_is_not_answered_again(
    source: QuestionFile, output: Path, whole: bytes, capsys: pytest.CaptureFixture[str], error, said: bool
) -> None:
    with pytest.raises(type(error)):
        answer_file(EchoJob(), source, output, mapper=stopping(3, error))
    assert ("the answers to 12 questions are kept; the same command goes on" in capsys.readouterr().err) == said
    starts = []

    def mapper(job: Job, source: QuestionFile, start: Place) -> Iterator[Answered]:
        starts.append(start.questions)
        return answer_here(job, source, start)

    answer_file(EchoJob(), source, output, mapper=mapper)
    assert starts == [12]
    assert output.read_bytes() == whole
    assert "going on behind the answers to 12 questions" in capsys.readouterr().err


def ask_slowly(source: QuestionFile, output: Path) -> None:
    answer_file(EchoJob(seconds=0.02), source, output)


def test_a_run_survives_being_killed_many_times(source: QuestionFile, output: Path, whole: bytes) -> None:
    random.seed(1)
    kills = 0
    while not output.exists():
        process = PROCESSES.Process(target=ask_slowly, args=(source, output))
        process.start()
        if kills < 6:
            begin, size = time.monotonic(), partial_size(output)
            while partial_size(output) == size and process.is_alive() and time.monotonic() < begin + 30:
                time.sleep(0.001)
            time.sleep(random.random() * 0.03)
            process.kill()
            kills += 1
        process.join()
    assert kills == 6
    assert output.read_bytes() == whole


def partial_size(output: Path) -> int:
    file = output.with_name(".answers.jsonl.partial")
    return file.stat().st_size if file.exists() else 0


def test_a_journal_that_was_edited_is_believed_no_further_than_the_answers_go(
    source: QuestionFile, output: Path, whole: bytes
) -> None:
    with pytest.raises(RunError):
        answer_file(EchoJob(), source, output, mapper=stopping(8, RunError("full")))
    left = {file: file.read_bytes() for file in drafts(output)}
    journal, _ = left
    *before, line = left[journal].splitlines(keepends=True)
    (questions, read, digest), size, failed = json.loads(line)
    edited: list[object] = [
        [[questions, read, digest], other, failed]
        for other in (size - 777, size - 1, 0, -5, size + 1, None, True, 1e9)
    ]
    edited += [[[other, read, digest], size, failed] for other in (questions - 4, questions + 1, "x", None, 32.0)]
    edited += [[["x", None, {}], "y", -5], [[questions, read, None], size, failed], [[], 0, 0], {}, 5]
    edited += [[[questions, read, digest], size, -1], [[questions, "9", digest], size, failed]]
    for content in edited:
        for file, old in left.items():
            file.write_bytes(old)
        journal.write_bytes(b"".join(before) + json.dumps(content).encode() + b"\n")
        starts: list[int] = []

        def mapper(job: Job, source: QuestionFile, start: Place, starts: list[int] = starts) -> Iterator[Answered]:
            starts.append(start.questions)
            return answer_here(job, source, start)

        assert answer_file(EchoJob(), source, output, mapper=mapper) == 2
        assert output.read_bytes() == whole, content
        assert starts == [28], content
        output.unlink()


def test_answers_of_another_model_are_never_mixed_in(source: QuestionFile, output: Path, whole: bytes) -> None:
    with pytest.raises(KeyboardInterrupt):
        answer_file(EchoJob(model="other"), source, output, mapper=stopping(3, KeyboardInterrupt()))
    with pytest.raises(UsageError, match=r"another model; .* --overwrite"):
        answer_file(EchoJob(), source, output)
    assert partial_size(output)
    answer_file(EchoJob(), source, output, overwrite=True)
    assert output.read_bytes() == whole


def test_other_questions_are_refused(source: QuestionFile, output: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        answer_file(EchoJob(), source, output, mapper=stopping(3, KeyboardInterrupt()))
    text = source.path.read_text(encoding="utf-8")
    source.path.write_text("{}\n" + text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"first 12 questions .* --overwrite"):
        answer_file(EchoJob(), source, output)
    assert partial_size(output)
    answer_file(EchoJob(), source, output, overwrite=True)
    assert output.read_text(encoding="utf-8").count("\n") == 51


def test_questions_that_change_meanwhile_do_no_harm(source: QuestionFile, output: Path, whole: bytes) -> None:
    # A buffer would hide the change of a shorter file.
    content = (source.path.read_bytes() + b"\n") * 10
    source.path.write_bytes(content)

    def mapper(job: Job, source: QuestionFile, start: Place) -> Iterator[Answered]:
        for answered in answer_here(job, source, start):
            os.truncate(source.path, len(content) * 9 // 10 - 3)
            yield answered

    with pytest.raises(RunError, match=r"has changed .* the first 450 are kept"):
        answer_file(EchoJob(), source, output, mapper=mapper)
    assert not output.exists()
    source.path.write_bytes(content)
    # The last line was answered when its end was missing.
    with pytest.raises(UsageError, match="are not those"):
        answer_file(EchoJob(), source, output)


def test_a_full_disk_loses_nothing(source: QuestionFile, output: Path, whole: bytes) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, limits[1]))
    try:
        with pytest.raises(RunError, match=r"takes no more: File too large; the answers to 24 questions are kept"):
            answer_file(EchoJob(), source, output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    answer_file(EchoJob(), source, output)
    assert output.read_bytes() == whole


def test_an_output_is_never_overwritten_unasked(source: QuestionFile, output: Path, whole: bytes) -> None:
    output.parent.mkdir()
    output.write_bytes(whole[:1000])
    with pytest.raises(UsageError, match=r"exists; .* --overwrite"):
        answer_file(EchoJob(), source, output)
    assert output.read_bytes() == whole[:1000]
    with pytest.raises(KeyboardInterrupt):
        answer_file(EchoJob(), source, output, True, stopping(3, KeyboardInterrupt()))
    assert output.read_bytes() == whole[:1000]
    answer_file(EchoJob(), source, output, overwrite=True)
    assert output.read_bytes() == whole


def test_what_is_no_file_of_answers_is_never_overwritten(source: QuestionFile, output: Path) -> None:
    with pytest.raises(UsageError, match="is the file of questions"):
        answer_file(EchoJob(), source, source.path, overwrite=True)
    output.parent.mkdir()
    output.write_text("my thesis", encoding="utf-8")
    with pytest.raises(UsageError, match="something else than answers"):
        answer_file(EchoJob(), source, output, overwrite=True)
    with pytest.raises(UsageError, match="is no file"):
        answer_file(EchoJob(), source, output.parent, overwrite=True)
    assert output.read_text(encoding="utf-8") == "my thesis"
    assert drafts(output) == []


def test_two_processes_never_write_the_same_output(source: QuestionFile, output: Path) -> None:
    with begun(output, EchoJob().key(), source, False), pytest.raises(UsageError, match="another process writes"):
        answer_file(EchoJob(), source, output)


def test_a_damaged_model_leaves_nothing_behind(source: QuestionFile, output: Path) -> None:
    with pytest.raises(UsageError, match="damaged"):
        answer_file(EchoJob(model="damaged"), source, output)
    assert list(output.parent.iterdir()) == []


def test_half_a_character_in_a_question_is_written_as_json_spells_it(tmp_path: Path, output: Path) -> None:
    (tmp_path / "questions.jsonl").write_text('{"id": "\\ud83d", "question": "痛"}\n', encoding="utf-8")
    answer_file(EchoJob(), QuestionFile(tmp_path / "questions.jsonl"), output)
    assert json.loads(output.read_text(encoding="utf-8"))["id"] == "\ud83d"


def test_a_real_model_draws_the_same_wherever_it_goes_on(model_folder: Path, tmp_path: Path, output: Path) -> None:
    from wenzhen.answering.decoding import decoding_named

    (tmp_path / "questions.txt").write_text("痔疮有什么症状？\n咳嗽怎么办？\n头痛\n发烧\n" * 2, encoding="utf-8")
    source = QuestionFile(tmp_path / "questions.txt")
    job = Job(model_folder, decoding_named("sampling"), seed=4, batch_size=1)
    answer_file(job, source, tmp_path / "whole.jsonl")
    with pytest.raises(KeyboardInterrupt):
        answer_file(job, source, output, mapper=stopping(1, KeyboardInterrupt()))
    answer_file(job, source, output)
    whole, parts = (
        [{**json.loads(line), "seconds": 0} for line in file.read_text(encoding="utf-8").splitlines()]
        for file in (tmp_path / "whole.jsonl", output)
    )
    assert whole == parts
    assert whole[0]["text"] != whole[4]["text"]
    assert set(job.key()) == set(Job(model_folder).key())
    assert job.key()["model"].startswith(whole[0]["revision"])


def test_everything_that_answers_depend_on_is_in_the_key(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    keys = [Job(folder).key(), Job(folder, seed=1).key(), Job(folder, seed=1, batch_size=8).key()]
    for name in ("evidence/meta.json", "departments/config.json", "generation_config.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps({"num_beams": 2}), encoding="utf-8")
        keys.append(Job(folder).key())
    keys.append(Job(folder, with_evidence=False).key())
    assert all(key not in keys[:number] for number, key in enumerate(keys))
    assert Job(folder, batch_size=8).key() == Job(folder).key()
