import os
import pickle
import random
import signal
import subprocess
import sys
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from wenzhen.corpus import near_duplicates as module
from wenzhen.corpus.near_duplicates import (
    THRESHOLD,
    batches_of,
    fresh_process,
    near_duplicates,
    near_duplicates_in_each,
    shingles_of,
    signatures_of,
    similarity,
)
from wenzhen.errors import RunError

HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 800)]
# What the module promises for a pair that is just similar enough.
PROMISED = 0.947


def groups_of(texts):
    return near_duplicates(pa.array(texts, pa.large_string())).tolist()


def grams(text):
    return {text[start : start + 5] for start in range(len(text) - 4)}


def jaccard(one, other):
    """Count the common 5-grams of two texts of at least five characters."""
    one, other = grams(one), grams(other)
    return len(one & other) / len(one | other)


def characters(number, first=0x4E00):
    """Return a text of different characters, so that it has four 5-grams fewer than characters."""
    return "".join(map(chr, range(first, first + number)))


# 10 characters make 6 grams, and a text that goes on from another keeps all of its grams.
@pytest.mark.parametrize(
    ("length", "longer", "expected"),
    [(12, 14, 8 / 10), (44, 54, 40 / 50), (43, 53, 39 / 49), (12, 15, 8 / 11), (5, 6, 1 / 2), (20, 20, 1.0)],
)
def test_similarity_by_hand(length, longer, expected):
    one, other = shingles_of(characters(length)), shingles_of(characters(longer))
    assert (len(one), len(other)) == (length - 4, longer - 4)
    assert similarity(one, other) == similarity(other, one) == expected
    # 39 / 49 = 0.796 is not enough.
    assert (similarity(one, other) >= THRESHOLD) == (expected >= 0.8)


def test_a_change_in_the_middle_costs_five_grams():
    text = characters(49)
    changed = text[:20] + "一" + text[21:]
    # 45 grams each, of which 40 are the same: 40 / (45 + 45 - 40).
    assert similarity(shingles_of(text), shingles_of(changed)) == 40 / 50


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("胃", {"胃"}),
        ("胃痛两天", {"胃痛两天"}),
        ("胃痛两天了", {"胃痛两天了"}),
        ("胃痛两天了吗", {"胃痛两天了", "痛两天了吗"}),
    ],
)
def test_grams_of_short_texts(text, expected):
    assert shingles_of(text) == expected


def pairs_at(length, longer, count=120):
    """Return texts two by two, each pair of characters of its own and with the similarity of their lengths."""
    return [characters(size, 0x4E00 + 150 * number) for number in range(count) for size in (length, longer)]


def test_pairs_of_just_the_similarity_are_found_as_often_as_promised_and_no_others():
    texts = pairs_at(44, 54)
    assert jaccard(*texts[:2]) == 0.8
    groups = groups_of(texts)
    found = [groups[place] == groups[place + 1] for place in range(0, len(texts), 2)]
    # Three standard deviations of 120 draws below the promise.
    assert np.mean(found) >= PROMISED - 3 * (PROMISED * (1 - PROMISED) / len(found)) ** 0.5
    assert len(set(groups)) == len(texts) - sum(found)


def test_pairs_just_below_are_never_joined():
    assert jaccard(*pairs_at(43, 53, 1)) == 39 / 49
    assert groups_of(pairs_at(43, 53)) == list(range(240))


def mutated(text, edits, rng):
    for _ in range(edits):
        place = rng.randrange(len(text))
        text = rng.choice(
            [
                text[:place] + rng.choice(HAN) + text[place + 1 :],
                text[:place] + rng.choice(HAN) + text[place:],
                text[:place] + text[place + 1 :],
            ]
        )
    return text


def mutated_texts(seed, chained):
    """Return some 200 different texts: 20 made up, and of each some with a few edits, which may follow each other."""
    rng = random.Random(seed)
    texts = []
    for _ in range(20):
        text = original = "".join(rng.choices(HAN, k=rng.randrange(40, 160)))
        texts.append(text)
        for _ in range(9):
            text = mutated(text if chained else original, rng.randrange(1, 5), rng)
            texts.append(text)
    texts = sorted(set(texts))
    rng.shuffle(texts)
    return texts


def similar_pairs(texts):
    sets = list(map(grams, texts))
    return [
        (one, other)
        for one, other in combinations(range(len(texts)), 2)
        if 5 * len(sets[one] & sets[other]) >= 4 * len(sets[one] | sets[other])
    ]


def closure(size, pairs):
    """Name every text after the first that it hangs together with, by spreading the smallest name until none moves."""
    names = list(range(size))
    moved = True
    while moved:
        moved = False
        for one, other in pairs:
            if names[one] != names[other]:
                names[one] = names[other] = min(names[one], names[other])
                moved = True
    return names


@pytest.mark.parametrize("chained", [False, True])
def test_groups_against_exact_similarities_of_all_pairs(chained):
    pairs = found = 0
    for seed in range(4):
        texts = mutated_texts(seed, chained)
        groups = groups_of(texts)
        similar = similar_pairs(texts)
        inside = [(one, other) for one, other in similar if groups[one] == groups[other]]
        # Every group hangs together by pairs that are similar: none holds a text that belongs to another.
        assert closure(len(texts), inside) == groups
        pairs += len(similar)
        found += len(inside)
    assert pairs > 300
    assert found / pairs >= PROMISED


def test_texts_that_share_nothing_stay_alone():
    rng = random.Random(5)
    texts = ["".join(rng.choices(HAN, k=rng.randrange(5, 80))) for _ in range(300)]
    assert groups_of(texts) == list(range(300))


def test_texts_shorter_than_a_gram_are_like_no_other():
    assert groups_of(["胃", "胃痛", "胃痛两", "胃痛两天", "胃痛两天了", "痛", "胃痛两天了吗"]) == list(range(7))


def test_how_often_a_gram_comes_makes_no_difference():
    assert groups_of(["头痛" * 5, "发热" * 5, "头痛" * 9, "发热" * 6]) == [0, 1, 0, 1]


@pytest.mark.parametrize("first", [0x20000, 0x1F300])
def test_characters_beyond_the_first_plane_count_as_one(first):
    # 96 / 102 is similar; 96 / 121 = 0.79 is not.
    short, longer, longest = (characters(size, first) for size in (100, 106, 125))
    assert groups_of([short, longer]) == [0, 0]
    assert groups_of([short, longest]) == [0, 1]


def test_groups_reach_through_others():
    # Each goes on from the one before with 96 / 102, 102 / 108, … 132 / 138; the ends share but 96 / 138 = 0.7.
    texts = [characters(size) for size in range(100, 143, 6)]
    random.Random(0).shuffle(texts)
    assert groups_of(texts) == [0] * 8
    assert groups_of([min(texts), max(texts)]) == [0, 1]


def test_the_same_texts_make_the_same_groups():
    texts = mutated_texts(7, chained=True)
    assert groups_of(texts) == groups_of(texts)


def test_a_group_has_the_number_of_its_first_text():
    groups = groups_of(mutated_texts(8, chained=False))
    assert all(groups[group] == group and groups.index(group) == group for group in groups)


def test_one_text_is_a_group_and_no_text_is_none():
    assert groups_of(["多喝温开水"]) == [0]
    assert groups_of([]) == []


def form_letters(count):
    """Return texts of 170 common and 25 own characters: each pair shares 166 of 216 5-grams, or 0.77."""
    rng = random.Random(11)
    return [characters(170) + "".join(rng.choices(HAN, k=25)) for _ in range(count)]


def test_the_pairs_compared_grow_with_the_texts_and_not_their_square(monkeypatch):
    compared = 0

    def counted(one, other):
        nonlocal compared
        compared += 1
        return similarity(one, other)

    monkeypatch.setattr(module, "similarity", counted)
    monkeypatch.setattr(module, "_ROUNDS", 4)
    texts = form_letters(1_000)
    assert groups_of(texts) == list(range(1_000))
    # In each of 16 bands a text meets at most four others, and not one half of the 499,500 pairs.
    assert compared <= 16 * 4 * 1_000


def test_texts_alike_are_found_among_form_letters():
    letters = form_letters(400)
    # 2 of 191 5-grams are others: 189 / 193 = 0.98.
    texts = [*letters, *(letter[:-2] + "好了" for letter in letters)]
    groups = groups_of(texts)
    assert np.mean([groups[place] == groups[place + 400] for place in range(400)]) > 0.9


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([1_999_000] * 3, [1, 1, 1]),
        ([900_000] * 4, [2, 2]),
        ([100, 3_000_000, 1, 1], [1, 3]),
        ([1] * 5_200, [4_987, 213]),
    ],
)
def test_batches_are_of_some_2_m_characters(lengths, expected):
    texts = pa.array(["痛" * length for length in lengths], pa.large_string())
    batches = list(batches_of(texts))
    assert pa.chunked_array(batches).combine_chunks() == texts
    assert [len(batch) for batch in batches] == expected


def test_a_signature_depends_on_its_own_text_alone():
    texts = ["胃痛两天，饭后加重", "痛", "😊头痛😊头痛😊头痛", "胃痛两天，饭后加重吗", "发热" * 40]
    together = signatures_of(texts)
    assert together.shape == (5, 128)
    for text, signature in zip(texts, together, strict=True):
        assert (signatures_of([text])[0] == signature).all()
    # Texts with the same grams have the same signature; others differ in nearly all of their values.
    for same in ("发热" * 60, "发热" * 40 + "发", "热" + "发热" * 40):
        assert (signatures_of([same])[0] == together[4]).all()
    assert (together[0] == together[4]).mean() < 0.1


def test_signatures_agree_as_often_as_texts_are_similar():
    rng = random.Random(3)
    for edits in (1, 3, 8):
        text = "".join(rng.choices(HAN, k=400))
        other = mutated(text, edits, rng)
        # A value agrees with the probability of the similarity, or by chance in 1 of 256 cases.
        expected = (similarity(shingles_of(text), shingles_of(other)) * 255 + 1) / 256
        one, two = signatures_of([text, other])
        assert (one == two).mean() == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 128) ** 0.5)


def test_each_column_is_grouped_by_itself(monkeypatch):
    columns = [pa.array(mutated_texts(seed, chained=False), pa.large_string()) for seed in (1, 2)]
    expected = [near_duplicates(column).tolist() for column in columns]
    assert [groups.tolist() for groups in near_duplicates_in_each(columns)] == expected
    # As in processes of their own.
    monkeypatch.setattr(module, "_WORTH_A_PROCESS", 0)
    assert [groups.tolist() for groups in near_duplicates_in_each(columns)] == expected


def test_the_process_takes_no_module_from_the_current_directory(monkeypatch, tmp_path):
    for name in ("random", "rensa", "numpy", "wenzhen"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_WORTH_A_PROCESS", 0)
    columns = [pa.array(["胃痛", "发热"], pa.large_string())] * 2
    assert [groups.tolist() for groups in near_duplicates_in_each(columns)] == [[0, 1]] * 2


@pytest.mark.parametrize("handed", [0, 10, None])
def test_the_process_ends_silently_when_its_parent_is_gone(handed):
    texts = pickle.dumps(pa.array([characters(30, 0x4E00 + number) for number in range(5_000)]))
    process = subprocess.run(
        [sys.executable, "-P", "-m", module.__name__], input=texts[:handed], capture_output=True, timeout=60
    )
    assert (process.returncode, process.stdout, process.stderr) == (1, b"", b"")


def test_an_interrupted_search_kills_its_process(monkeypatch, capfd):
    started = []

    def interrupted(texts):
        raise KeyboardInterrupt

    def started_process():
        started.append(fresh_process())
        return started[-1]

    monkeypatch.setattr(module, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(module, "near_duplicates", interrupted)
    monkeypatch.setattr(module, "fresh_process", started_process)
    with pytest.raises(KeyboardInterrupt):
        near_duplicates_in_each([pa.array(["胃痛"], pa.large_string())] * 2)
    assert [process.returncode for process in started] == [-signal.SIGKILL]
    assert capfd.readouterr().err == ""


def test_ctrl_c_does_not_reach_the_process():
    process = fresh_process()
    assert os.getpgid(process.pid) != os.getpgid(0)
    process.communicate()


def test_a_process_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(module, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RunError, match="ended with status 1"):
        near_duplicates_in_each([pa.array(["胃痛"], pa.large_string())] * 2)
