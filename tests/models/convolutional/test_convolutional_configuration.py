"""Configurations of the convolutional network: its defaults, what is refused and in which words, saved ones."""

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import DynamicCache

from wenzhen.models.convolutional.configuration_convolutional import WenzhenConvolutionalConfig


def test_fields_that_mean_the_same_have_the_transformers_defaults():
    from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

    config, transformer = WenzhenConvolutionalConfig().to_dict(), WenzhenConfig().to_dict()
    shared = (config.keys() & transformer.keys()) - {"model_type"}
    assert {"d_model", "encoder_layers", "decoder_layers", "dropout", "tie_word_embeddings"} < shared
    assert {name: config[name] for name in shared} == {name: transformer[name] for name in shared}
    assert config["model_type"] == "wenzhen_convolutional"
    assert config["kernel_size"] == 3


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("kernel_size", {"kernel_size": 4}),
        ("kernel_size", {"kernel_size": 0}),
        ("kernel_size", {"kernel_size": "3"}),
        ("d_model", {"d_model": 0}),
        ("encoder_layers", {"encoder_layers": 0}),
        ("decoder_layers", {"decoder_layers": 0}),
        ("max_position_embeddings", {"max_position_embeddings": 0}),
        ("vocab_size", {"vocab_size": 0}),
        ("dropout", {"dropout": 1.0}),
        ("dropout", {"dropout": -0.1}),
        ("tie_word_embeddings", {"tie_word_embeddings": "some"}),
        ("is_encoder_decoder", {"is_encoder_decoder": False}),
        ("pad_token_id", {"pad_token_id": 8000}),
        ("decoder_start_token_id", {"vocab_size": 9, "decoder_start_token_id": 9}),
        ("eos_token_id", {"eos_token_id": []}),
        ("eos_token_id", {"eos_token_id": [3, 8000]}),
    ],
)
def test_impossible_configuration_is_refused_by_name(field, values):
    with pytest.raises(StrictDataclassError, match=field):
        WenzhenConvolutionalConfig(**values)


def test_an_even_kernel_is_refused_with_the_reason():
    with pytest.raises(StrictDataclassError, match=r"`kernel_size` must be odd.*got 4"):
        WenzhenConvolutionalConfig(kernel_size=4)


def test_configuration_made_impossible_later_is_not_saved(tmp_path):
    config = WenzhenConvolutionalConfig(d_model=32)
    with pytest.raises(StrictDataclassError, match="kernel_size"):
        config.kernel_size = 2
        config.save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())


def test_saved_configuration_comes_back_equal(tmp_path):
    config = WenzhenConvolutionalConfig(d_model=33, encoder_layers=1, decoder_layers=3, kernel_size=5, dropout=0.25)
    config.save_pretrained(tmp_path)
    assert WenzhenConvolutionalConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()


def test_caches_of_transformers_are_as_wide_as_the_kernel():
    cache = DynamicCache(config=WenzhenConvolutionalConfig(decoder_layers=4, kernel_size=7))
    assert [layer.sliding_window for layer in cache.layers] == [7] * 4
