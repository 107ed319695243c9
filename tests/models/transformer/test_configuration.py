"""Configurations of the Transformer: the thesis' defaults, what is refused and in which words, old and saved ones."""

import json

import pytest
from huggingface_hub.errors import StrictDataclassError

from wenzhen.models.transformer.configuration_transformer import WenzhenConfig


def test_defaults_are_the_thesis_model():
    config = WenzhenConfig().to_dict()
    expected = {
        "d_model": 512,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "attention_heads": 8,
        "d_ff": 2048,
        "activation_function": "relu",
        "norm": "post",
        "positions": "sinusoidal",
        "attention_score": "scaled_dot",
        "tie_word_embeddings": True,
        "dropout": 0.1,
        "pad_token_id": 0,
        "unk_token_id": 1,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "decoder_start_token_id": 2,
    }
    assert {name: config[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("attention_heads", {"d_model": 32, "attention_heads": 5}),
        ("d_model", {"d_model": 32, "attention_heads": 5}),
        ("d_model", {"d_model": 33, "attention_heads": 3}),
        ("positions", {"d_model": 33, "attention_heads": 3}),
        ("d_model", {"d_model": "32"}),
        ("dropout", {"dropout": 1.0}),
        ("dropout", {"dropout": -0.1}),
        ("encoder_layers", {"encoder_layers": 0}),
        ("decoder_layers", {"decoder_layers": 0}),
        ("attention_heads", {"attention_heads": 0}),
        ("max_position_embeddings", {"max_position_embeddings": 0}),
        ("vocab_size", {"vocab_size": 0}),
        ("d_ff", {"d_ff": "wide"}),
        ("d_ff", {"d_ff": 0}),
        ("norm", {"norm": "middle"}),
        ("positions", {"positions": "rotary"}),
        ("attention_score", {"attention_score": "cosine"}),
        ("activation_function", {"activation_function": "tanh"}),
        ("tie_word_embeddings", {"tie_word_embeddings": "some"}),
        ("layer_norm_eps", {"layer_norm_eps": -1.0}),
        ("layer_norm_eps", {"layer_norm_eps": float("nan")}),
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
        WenzhenConfig(**values)


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        ("norm", ("post", "pre")),
        ("positions", ("sinusoidal", "learned")),
        ("attention_score", ("scaled_dot", "dot", "additive", "bilinear")),
        ("activation_function", ("relu", "gelu", "silu")),
    ],
)
def test_refusal_of_a_choice_lists_what_is_allowed(field, allowed):
    for value in allowed:
        assert getattr(WenzhenConfig(**{field: value}), field) == value
    with pytest.raises(StrictDataclassError, match=f"{field}.*{', '.join(map(repr, allowed))}.*got other"):
        WenzhenConfig(**{field: "other"})


def test_learned_positions_have_any_width():
    assert WenzhenConfig(d_model=33, attention_heads=3, positions="learned").d_model == 33


@pytest.mark.parametrize(("field", "value"), [("attention_heads", 5), ("norm", "middle")])
def test_configuration_made_impossible_later_is_not_saved(tmp_path, field, value):
    config = WenzhenConfig(d_model=32)
    with pytest.raises(StrictDataclassError, match=field):
        setattr(config, field, value)
        config.save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())


def test_saved_configuration_comes_back_equal(tmp_path):
    config = WenzhenConfig(d_model=32, encoder_layers=1, decoder_layers=3, dropout=0.25)
    config.save_pretrained(tmp_path)
    assert WenzhenConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()


def test_configuration_saved_before_there_were_choices_is_the_thesis_model(tmp_path):
    config = WenzhenConfig(d_model=32)
    config.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    for choice in ("norm", "positions", "attention_score"):
        fields.pop(choice, None)
    path.write_text(json.dumps(fields), encoding="utf-8")
    assert WenzhenConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()
