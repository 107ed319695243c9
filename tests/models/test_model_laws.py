"""The laws' own machinery: which configurations they are tried on, and how a family is excused from one."""

import itertools

import pytest

from model_laws import ModelLaws
from model_laws.family import ModelFamily


class Family(ModelFamily):
    choices = {"a": (1, 2, 3), "b": (True, False)}
    shapes = {"c": ("x", "y")}

    @classmethod
    def admits(cls, choices):
        return choices["b"] or choices["a"] == 1


@pytest.mark.parametrize("strength", [1, 2])
def test_covering_holds_every_meeting_that_is_admitted_and_begins_with_the_defaults(strength):
    covering = [dict(choices) for choices in Family.covering(strength)]
    assert covering[0] == {"a": 1, "b": True, "c": "x"}
    assert all(map(Family.admits, covering))
    wanted = [
        {"a": a, "b": b, "c": c}
        for a, b, c in itertools.product((1, 2, 3), (True, False), "xy")
        if Family.admits({"a": a, "b": b})
    ]
    for choices in wanted:
        for fields in itertools.combinations("abc", strength):
            assert any(all(met[field] == choices[field] for field in fields) for met in covering)
    assert len(covering) < len(wanted)


def test_a_family_is_excused_from_a_law_by_name_and_reason():
    law = "test_encoder_reads_both_ways_and_no_padding"

    class Excused(ModelLaws):
        inapplicable = {law: "its encoder reads one way"}

    assert getattr(Excused, law) is None
    assert callable(getattr(ModelLaws, law))
    for inapplicable in ({law: ""}, {"test_that_never_was": "a reason"}):
        with pytest.raises(TypeError, match=next(iter(inapplicable))):
            type("Refused", (ModelLaws,), {"inapplicable": inapplicable})
