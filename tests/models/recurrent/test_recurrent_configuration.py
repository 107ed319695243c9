"""Configurations of the recurrent network: defaults, what is refused and in which words, saved ones."""

import pytest
from huggingface_hub.errors import StrictDataclassError

from wenzhen.models.recurrent.configuration_recurrent import WenzhenRecurrentConfig
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig


def test_fields_shared_with_the_transformer_have_its_defaults():
    recurrent, transformer = WenzhenRecurrentConfig().to_dict(), WenzhenConfig().to_dict()
    own = {name for name in recurrent if recurrent[name] != transformer.get(name)}
    assert own == {"model_type", "cell", "bidirectional"}
    assert (recurrent["cell"], recurrent["bidirectional"]) == ("lstm", True)


def test_fields_go_by_the_librarys_names_too():
    config = WenzhenRecurrentConfig(d_model=30, decoder_layers=3)
    assert (config.hidden_size, config.num_hidden_layers) == (30, 3)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("d_model", {"d_model": 33}),
        ("bidirectional", {"d_model": 33}),
        ("d_model", {"d_model": 0, "bidirectional": False}),
        ("d_model", {"d_model": "32"}),
        ("dropout", {"dropout": 1.0}),
        ("dropout", {"dropout": -0.1}),
        ("dropout", {"dropout": float("nan")}),
        ("encoder_layers", {"encoder_layers": 0}),
        ("decoder_layers", {"decoder_layers": 0}),
        ("max_position_embeddings", {"max_position_embeddings": 0}),
        ("vocab_size", {"vocab_size": 0}),
        ("bidirectional", {"bidirectional": "both"}),
        ("tie_word_embeddings", {"tie_word_embeddings": "some"}),
        ("is_encoder_decoder", {"is_encoder_decoder": False}),
        ("pad_token_id", {"pad_token_id": 8000}),
        ("pad_token_id", {"pad_token_id": -1}),
        ("decoder_start_token_id", {"vocab_size": 9, "decoder_start_token_id": 9}),
        ("eos_token_id", {"eos_token_id": []}),
        ("eos_token_id", {"eos_token_id": [3, 8000]}),
    ],
)
def test_impossible_configuration_is_refused_by_name(field, values):
    with pytest.raises(StrictDataclassError, match=field):
        WenzhenRecurrentConfig(**values)


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        ("cell", ("rnn", "gru", "lstm")),
        ("attention_score", ("scaled_dot", "dot", "additive", "bilinear", "none")),
    ],
)
def test_refusal_of_a_choice_lists_what_is_allowed(field, allowed):
    for value in allowed:
        assert getattr(WenzhenRecurrentConfig(**{field: value}), field) == value
    with pytest.raises(StrictDataclassError, match=f"{field}.*{', '.join(map(repr, allowed))}.*got other"):
        WenzhenRecurrentConfig(**{field: "other"})


def test_an_encoder_that_reads_one_way_has_any_width():
    assert WenzhenRecurrentConfig(d_model=33, bidirectional=False).d_model == 33


@pytest.mark.parametrize(("field", "value"), [("d_model", 33), ("cell", "other")])
def test_configuration_made_impossible_later_is_not_saved(tmp_path, field, value):
    config = WenzhenRecurrentConfig(d_model=32)
    with pytest.raises(StrictDataclassError, match=field):
        setattr(config, field, value)
        config.save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())
