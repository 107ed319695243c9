"""What generation_config.json may set."""

import math
from typing import Any

import pytest
from transformers import GenerationConfig

from wenzhen.answering.decoding import SETTINGS, Decoding, checked_settings, decoding_named, describe
from wenzhen.errors import UsageError


def test_every_setting_is_one_of_transformers() -> None:
    assert SETTINGS.keys() <= GenerationConfig().to_dict().keys()


def test_numbers_become_what_both_engines_take() -> None:
    given = {"repetition_penalty": 2, "top_p": 1, "num_beams": 4, "do_sample": False, "temperature": None}
    checked = checked_settings({**given, "transformers_version": "5", "_from_model_config": True})
    assert checked == {"repetition_penalty": 2.0, "top_p": 1.0, "num_beams": 4, "do_sample": False}
    assert {name: type(value) for name, value in checked.items()} == {
        "repetition_penalty": float,
        "top_p": float,
        "num_beams": int,
        "do_sample": bool,
    }


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("num_beams", "4", "a whole number of at least 1 and of at most 1000"),
        ("num_beams", 2.0, "a whole number"),
        ("num_beams", True, "a whole number"),
        ("num_beams", 10**30, "of at most 1000"),
        ("max_new_tokens", 1.5, "a whole number of at least 1"),
        ("max_new_tokens", 0, "of at least 1"),
        ("min_new_tokens", -1, "of at least 0"),
        ("no_repeat_ngram_size", -1, "of at least 0"),
        ("top_k", -3, "of at least 0"),
        ("top_p", 0.0, "a number of at least 0.001 and of at most 1"),
        ("top_p", 1.5, "of at most 1"),
        ("repetition_penalty", 0, "of at least 0.01"),
        ("repetition_penalty", -1.0, "of at least 0.01"),
        ("repetition_penalty", True, "a number"),
        ("temperature", 0.0, "of at least 0.01"),
        ("temperature", 1e300, "of at most 100"),
        ("length_penalty", 500, "of at most 50"),
        ("length_penalty", math.nan, "a number"),
        ("length_penalty", -math.inf, "a number"),
        ("length_penalty", 10**400, "a number"),
        ("do_sample", 1, "true or false"),
        ("early_stopping", "never", "true or false"),
        ("use_cache", [], "true or false"),
    ],
)
def test_impossible_values_are_refused(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(UsageError, match=rf"the generation setting {name} must be .*{allowed}.*, got"):
        checked_settings({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_return_sequences", 2),
        ("return_dict_in_generate", True),
        ("stop_strings", ["。"]),
        ("penalty_alpha", 0.6),
        ("num_beam_groups", 2),
        ("sequence_bias", 5),
        ("max_length", 20),
        ("typical_p", 0.9),
    ],
)
def test_other_settings_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"setting {name} is none of wenzhen's; there are: do_sample, early_stopping"):
        checked_settings({"num_beams": 1, name: value})


def test_a_decoding_is_checked_too() -> None:
    with pytest.raises(UsageError, match="temperature must be a number of at least"):
        Decoding(do_sample=True, temperature=-1.0).applied_to(GenerationConfig())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("beam:num_beams=8,length_penalty=1", Decoding(num_beams=8, length_penalty=1.0)),
        ("greedy:repetition_penalty=1.2", Decoding(repetition_penalty=1.2)),
        ("sampling:top_p=0.5", Decoding(do_sample=True, temperature=0.7, top_p=0.5)),
        ("beam:", Decoding(num_beams=4, length_penalty=0.75)),
        ("beam:do_sample=true,num_beams= 2", Decoding(num_beams=2, length_penalty=0.75, do_sample=True)),
        ("sampling:do_sample=False,top_p=5e-1", Decoding(temperature=0.7, top_p=0.5)),
        ("beam:num_beams=none,repetition_penalty=none", Decoding(num_beams=4, length_penalty=0.75)),
    ],
)
def test_a_way_may_have_settings_of_its_own(name, expected):
    assert decoding_named(name) == expected


def test_what_keeps_from_repeating_is_the_models_own_unless_asked_otherwise():
    default = GenerationConfig(max_new_tokens=5, repetition_penalty=1.5, no_repeat_ngram_size=3)
    assert decoding_named("greedy").applied_to(default).repetition_penalty == 1.5
    changed = decoding_named("greedy:repetition_penalty=1").applied_to(default)
    assert (changed.repetition_penalty, changed.no_repeat_ngram_size) == (1.0, 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fast", "no decoding fast; there are: greedy, beam, sampling"),
        ("beam:beams=4", "has no setting beams; there are: num_beams"),
        ("beam:num_beams", "has num_beams, expected SETTING=VALUE"),
        ("beam:num_beams=x", "num_beams must be a whole number"),
        ("beam:num_beams=", "num_beams must be a whole number"),
        ("beam:num_beams=2.5", "num_beams must be a whole number .*, got 2.5"),
        ("beam:num_beams=true", "num_beams must be a whole number .*, got True"),
        ("beam:num_beams=1" + 180 * "0", "num_beams must be a whole number .*of at most 1000"),
        ("beam:length_penalty=nan", "length_penalty must be a number"),
        ("greedy:repetition_penalty=[", "repetition_penalty must be a number"),
        ("sampling:do_sample=yes", "do_sample must be true or false"),
        # What YAML would make of them is no value, and more than a mistake.
        ("greedy:num_beams=!!int ''", "num_beams must be a whole number"),
        ("greedy:num_beams=!!bool x", "num_beams must be a whole number"),
        ("greedy:num_beams=!!timestamp x", "num_beams must be a whole number"),
        ("greedy:num_beams=" + 3000 * "[", "at most 200 printable characters, .*got 3,017"),
        ("greedy:num_beams=0x" + 6000 * "f", "at most 200 printable characters"),
        ("greedy:num_beams=1" + 3000 * ":1", "at most 200 printable characters"),
        ("greedy:\x1b[31m", "printable"),
        ("greedy\n", "printable"),
        ("\ud800", "printable"),
    ],
)
def test_a_way_that_cannot_be_is_refused_in_one_line(name, message):
    with pytest.raises(UsageError, match=message) as refused:
        decoding_named(name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("greedy", "greedy search"),
        ("greedy:no_repeat_ngram_size=4", "greedy search, no 4-gram twice"),
        ("beam:length_penalty=0", "4 beams, α 0"),
        (
            "sampling:num_beams=3,length_penalty=0.5",
            "sampling, temperature 0.7, top-p 0.9, 3 beams, α 0.5",
        ),
        ("beam:do_sample=true", "sampling, temperature 1, top-p 1, 4 beams, α 0.75"),
        ("sampling:repetition_penalty=1.2", "sampling, temperature 0.7, top-p 0.9, repetition penalty 1.2"),
    ],
)
def test_a_way_is_told_in_words(name, words):
    assert describe(decoding_named(name).applied_to(GenerationConfig(max_new_tokens=5))) == words
