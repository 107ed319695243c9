import dataclasses
from pathlib import Path

import pytest
import yaml

from wenzhen.errors import UsageError
from wenzhen.recipe import Data, Evaluation, Generation, Model, Recipe, Training, load_recipe, settings

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
THESIS = ROOT / "recipes" / "thesis-bs32.yaml"
SMALLEST = {"output": "模型", "data": {"dataset": "数据", "tokenizer": "词表"}}


@pytest.fixture
def load(tmp_path):
    def load_text(text, *overrides):
        path = tmp_path / "recipe.yaml"
        path.write_text(text if isinstance(text, str) else yaml.safe_dump(text), encoding="utf-8")
        return load_recipe(str(path), overrides)

    return load_text


def leaves(values, prefix=""):
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_there_are_recipes():
    assert {path.stem for path in RECIPES} == {
        "fast",
        "quickstart",
        "quickstart-convolutional",
        "quickstart-departments",
        "quickstart-recurrent",
        "quickstart-recurrent-plain",
        "thesis-bs32",
        "thesis-bs64",
    }


NETWORKS = ["quickstart", "quickstart-recurrent", "quickstart-recurrent-plain", "quickstart-convolutional"]


def test_the_recipes_of_the_networks_have_equal_parameters():
    """Within one per cent, with the sample corpus' vocabulary."""
    import torch

    from wenzhen.models.families import configuration_class, model_class
    from wenzhen.training.initial_model import model_shape

    sizes = []
    for name in NETWORKS:
        recipe = load_recipe(str(ROOT / "recipes" / f"{name}.yaml"))
        config = configuration_class(recipe.model.family)(
            **model_shape(recipe), vocab_size=1497, max_position_embeddings=recipe.data.max_answer_length
        )
        with torch.device("meta"):
            sizes.append(model_class(recipe.model.family)(config).num_parameters())
    assert max(sizes) < 1.01 * min(sizes)


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [("transformer", "cell", "gru"), ("recurrent", "norm", "pre"), ("convolutional", "attention_score", "dot")],
)
def test_a_setting_of_another_network_is_refused(load, family, key, value):
    with pytest.raises(UsageError, match=rf"model\.{key} is a setting of .* networks, and the recipe's is {family}"):
        load(SMALLEST, f"model.family={family}", f"model.{key}={value}")


@pytest.mark.parametrize("family", ["transformer", "recurrent", "convolutional"])
def test_the_settings_of_a_network_are_fields_of_its_configuration(load, tmp_path, family):
    from wenzhen.models.families import configuration_class
    from wenzhen.recipe import shape_settings

    recipe = load(SMALLEST, f"model.family={family}")
    own = {key.removeprefix("model.") for key, _ in recipe.items() if key.startswith("model.")}
    assert own == {"family", "word_vectors", "from", *shape_settings(family)}
    assert set(shape_settings(family)) <= set(configuration_class(family)().to_dict())
    recipe.save(tmp_path)
    assert load_recipe(str(tmp_path / "recipe.yaml")) == recipe


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_of_the_repository_loads_to_what_its_file_says(path):
    recipe = load_recipe(str(path))
    sections = (recipe.data, recipe.model, recipe.training, recipe.generation, recipe.evaluation)
    assert [type(section) for section in sections] == [Data, Model, Training, Generation, Evaluation]
    resolved, written = dict(recipe.items()), yaml.safe_load(path.read_text(encoding="utf-8"))
    for key in leaves(written):
        there = written
        for name in key.split("."):
            there = there[name]
        assert resolved[key] == there, key
    assert recipe.given == set(leaves(written))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_of_the_repository_makes_training_arguments(path, tmp_path):
    from wenzhen.training.arguments import OWN_SETTINGS, training_arguments

    recipe = load_recipe(str(path), [f"output={tmp_path}", "training.use_cpu=true"])
    arguments = training_arguments(recipe)
    given = {name: value for name, value in vars(recipe.training).items() if name not in OWN_SETTINGS}
    del given["bf16"]
    # An enumeration of transformers' compares equal to its text.
    assert {name: getattr(arguments, name) for name in given} == given
    assert isinstance(arguments.bf16, bool)
    assert (arguments.seed, arguments.save_steps) == (recipe.seed, recipe.training.eval_steps)


def test_every_training_setting_is_one_of_transformers_or_known_as_our_own():
    from transformers import Seq2SeqTrainingArguments

    from wenzhen.training.arguments import OWN_SETTINGS

    known = {member.name for member in dataclasses.fields(Seq2SeqTrainingArguments)}
    # transformers has a `report_to` too, but brings its own way to write TensorBoard's files.
    assert {member.name for member in dataclasses.fields(Training)} - known == set(OWN_SETTINGS) - {"report_to"}


@pytest.mark.parametrize(("name", "batch"), [("thesis-bs32", 32), ("thesis-bs64", 64)])
def test_the_thesis_recipes_hold_the_thesis_numbers(name, batch):
    recipe = load_recipe(str(ROOT / "recipes" / f"{name}.yaml"))
    model, training = recipe.model, recipe.training
    assert (model.encoder_layers, model.decoder_layers, model.d_model, model.d_ff) == (6, 6, 512, 2048)
    assert (model.attention_heads, model.dropout) == (8, 0.1)
    assert (training.adam_beta1, training.adam_beta2, training.learning_rate) == (0.9, 0.95, 0.0002)
    assert (training.num_train_epochs, training.per_device_train_batch_size) == (15, batch)
    assert (training.gradient_accumulation_steps, training.max_steps) == (1, -1)


def test_the_thesis_recipes_differ_in_output_and_batch_size_only():
    first, second = (load_recipe(str(ROOT / "recipes" / f"thesis-bs{size}.yaml")) for size in (32, 64))
    second.output = first.output
    second.training.per_device_train_batch_size = first.training.per_device_train_batch_size
    assert first == second


def test_the_thesis_recipe_shows_every_setting_and_its_order():
    assert list(leaves(yaml.safe_load(THESIS.read_text(encoding="utf-8")))) == [
        key for key, _ in load_recipe(str(THESIS)).items()
    ]


def test_every_setting_has_a_meaning():
    assert all(member.metadata["meaning"] for _, member, _ in settings())


LAUNCHES = {
    # Machines, processes of all of them, and whether GPUs are left alone.
    "cpu": (1, 1, True),
    "one-gpu": (1, 1, False),
    "several-gpus": (1, 3, False),
    "several-machines": (2, 6, False),
    "fsdp": (1, 3, False),
}


def test_there_are_launch_settings():
    assert {path.stem for path in (ROOT / "recipes" / "accelerate").glob("*.yaml")} == LAUNCHES.keys()


@pytest.mark.parametrize("name", LAUNCHES)
def test_accelerate_reads_its_configurations(name):
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(ROOT / "recipes" / "accelerate" / f"{name}.yaml"))
    assert (config.num_machines, config.num_processes, config.use_cpu) == LAUNCHES[name]
    assert str(config.mixed_precision) == "no"


def test_defaults_fill_what_a_recipe_leaves_out(load):
    data = Data(dataset="数据", tokenizer="词表")
    assert load(SMALLEST) == Recipe(output="模型", data=data)


@pytest.mark.parametrize("text", ["1e-4", "1.0e-4", "0.0001", "'1e-4'"])
def test_a_number_may_be_written_in_every_way(load, text):
    recipe = load(yaml.safe_dump(SMALLEST) + f"training:\n  learning_rate: {text}\n")
    assert recipe.training.learning_rate == 0.0001
    assert load(SMALLEST, f"training.learning_rate={text}").training.learning_rate == 0.0001


def test_a_whole_number_becomes_a_float_where_one_is_meant(load):
    epochs = load({**SMALLEST, "training": {"num_train_epochs": 3}}).training.num_train_epochs
    assert (epochs, type(epochs)) == (3.0, float)


def test_overrides_win_over_the_file_and_the_last_over_the_first(load):
    recipe = load(
        {**SMALLEST, "seed": 1, "model": {"d_model": 64, "d_ff": 128}},
        "seed=2",
        "model.d_model=32",
        "seed=3",
        "output=a=b",
        "evaluation.questions=0",
        "training.bf16=false",
    )
    assert (recipe.seed, recipe.model.d_model, recipe.model.d_ff, recipe.output) == (3, 32, 128, "a=b")
    assert (recipe.evaluation.questions, recipe.training.bf16) == (0, False)


def test_an_override_reaches_into_a_section_left_empty(load):
    text = yaml.safe_dump(SMALLEST, allow_unicode=True) + "model:\n"
    assert load(text).model == Model()
    assert load(text, "model.d_model=64").model == Model(d_model=64)


@pytest.mark.parametrize("override", ["seed", "", "=3", "training.learning_rate 3"])
def test_an_override_of_another_form_is_refused(load, override):
    with pytest.raises(UsageError, match="form key=value, got: ") as error:
        load(SMALLEST, override)
    assert str(error.value).endswith(override)


def test_an_override_that_is_no_yaml_is_refused(load):
    with pytest.raises(UsageError, match="the value of seed is not YAML"):
        load(SMALLEST, "seed=[1")


@pytest.mark.parametrize(
    ("changes", "wrong", "right"),
    [
        ({"training": {"learning_rat": 1}}, "training.learning_rat", "training.learning_rate"),
        ({"model": {"d_modle": 64}}, "model.d_modle", "model.d_model"),
        ({"generation": {"beams": 4}}, "generation.beams", "generation.num_beams"),
        ({"learning_rate": 1}, "learning_rate", "training.learning_rate"),
        ({"dataset": "数据"}, "dataset", "data.dataset"),
        ({"sead": 1}, "sead", "seed"),
        ({"model": {"learning_rate": 1}}, "model.learning_rate", "training.learning_rate"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(load, changes, wrong, right):
    with pytest.raises(UsageError) as error:
        load({**SMALLEST, **changes})
    assert f"unknown key {wrong} " in str(error.value) and f"did you mean {right}?" in str(error.value)


@pytest.mark.parametrize(
    ("override", "wrong", "right"),
    [
        ("training.learning_rte=1", "training.learning_rte", "training.learning_rate"),
        ("max_steps=5", "max_steps", "training.max_steps"),
    ],
)
def test_an_unknown_override_is_refused_with_the_nearest_key(load, override, wrong, right):
    with pytest.raises(UsageError) as error:
        load({**SMALLEST, "seed": 1}, override)
    assert f"unknown key {wrong} " in str(error.value) and f"did you mean {right}?" in str(error.value)


def test_an_override_below_a_setting_is_refused(load):
    with pytest.raises(UsageError, match=r"unknown key seed\.value"):
        load({**SMALLEST, "seed": 1}, "seed.value=1")


@pytest.mark.parametrize("section", ["data", "model", "training", "generation", "evaluation"])
def test_a_misspelt_section_is_refused_and_the_right_one_named(load, section):
    misspelt = section[:-2] + section[-1] + section[-2]
    with pytest.raises(UsageError) as error:
        load(SMALLEST, f"{misspelt}.x=1")
    assert f"unknown key {misspelt} " in str(error.value) and f"did you mean {section}?" in str(error.value)


def test_a_key_like_no_other_is_refused_with_all_keys(load):
    with pytest.raises(UsageError, match="unknown key zzz") as error:
        load({**SMALLEST, "zzz": 1})
    assert all(key in str(error.value) for key, _, _ in settings())


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("seed", "true", "a whole number"),
        ("seed", "1.5", "a whole number"),
        ("seed", "'7'", "a whole number"),
        ("seed", "-1", "of at least 0"),
        ("seed", "", "a whole number"),
        ("model.d_model", "1", "of at least 2"),
        ("data.max_samples", "-2", "of at least 1, or -1"),
        ("training.max_steps", "0", "of at least 1, or -1"),
        ("training.learning_rate", "-1.0e-4", "above 0"),
        ("training.learning_rate", "-1e-4", "above 0"),
        ("training.num_train_epochs", "0", "above 0"),
        ("training.adam_beta1", "1", "of at least 0 and below 1"),
        ("model.dropout", "1.5", "of at least 0 and below 1"),
        ("model.activation_function", "nope", "relu or gelu or silu"),
        ("training.learning_rate", "fast", "a number"),
        ("training.learning_rate", "true", "a number"),
        ("training.learning_rate", ".nan", "a number"),
        ("training.learning_rate", ".inf", "a number"),
        ("training.learning_rate", "nan", "a number"),
        ("training.learning_rate", "-inf", "a number"),
        ("generation.length_penalty", ".nan", "a number"),
        ("generation.length_penalty", "-inf", "a number"),
        ("training.learning_rate", "1e999", "a number"),
        pytest.param("training.learning_rate", "1" + "0" * 400, "a number", id="too-large-for-a-float"),
        ("training.learning_rate", "[1]", "a number"),
        ("training.use_cpu", "1", "true or false"),
        ("training.use_cpu", "'true'", "true or false"),
        ("training.bf16", "1", "auto or true or false"),
        ("training.bf16", "maybe", "auto or true or false"),
        ("training.lr_scheduler_type", "cosin", "cosine"),
        ("training.max_tokens_per_batch", 10**22, "of at most 1e+09"),
        ("training.pad_to_multiple_of", 5000, "of at most 4096"),
        ("model.family", "lstm", "transformer"),
        ("output", "7", "a text"),
        ("output", "''", "a text"),
        ("data.dataset", "[a]", "a text"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_key(load, key, text, expected):
    with pytest.raises(UsageError) as error:
        load(SMALLEST, f"{key}={text}")
    assert str(error.value).startswith(f"{key} must be ") and expected in str(error.value)


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({"data": SMALLEST["data"]}, "output"),
        ({"output": "模型"}, "data.dataset"),
        ({"output": "模型", "data": None}, "data.dataset"),
        ({"output": "模型", "data": {"dataset": "数据"}}, "data.tokenizer"),
    ],
)
def test_a_missing_key_is_named(load, values, missing):
    with pytest.raises(UsageError, match=f"lacks {missing}: "):
        load(values)


@pytest.mark.parametrize("text", ["seed: 1\nseed: 2\n", "model:\n  d_ff: 1\n  d_model: 2\n  d_ff: 3\n"])
def test_a_key_written_twice_is_refused(load, text):
    key = text.split()[-2].rstrip(":")
    with pytest.raises(UsageError, match=f"the key {key} stands twice"):
        load(yaml.safe_dump(SMALLEST) + text)


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "只有文字\n", "7\n"])
def test_a_file_that_is_no_mapping_is_refused(load, text):
    with pytest.raises(UsageError, match="is no recipe"):
        load(text)


@pytest.mark.parametrize("value", ["5", "text", "[1, 2]"])
def test_a_section_that_is_no_mapping_is_refused(load, value):
    with pytest.raises(UsageError, match="model in the recipe must hold keys"):
        load(SMALLEST, f"model={value}")


@pytest.mark.parametrize("content", [b"a: [1\n", b"a: b: c\n", b"output: \xff\xfe\n", b"output: 2024-02-30\n"])
def test_a_file_that_is_no_yaml_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"recipe\.yaml is not a YAML file") as error:
        load_recipe(str(path))
    assert "\n" not in str(error.value)


def test_a_bare_name_means_a_recipe_of_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert load_recipe("thesis-bs32") == load_recipe("recipes/thesis-bs32.yaml") == load_recipe(str(THESIS))


def test_an_unknown_recipe_is_refused_with_the_known_ones(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    with pytest.raises(UsageError, match=r"no recipe thesis;.*quickstart-recurrent-plain, thesis-bs32, thesis-bs64"):
        load_recipe("thesis")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="none here"):
        load_recipe("thesis-bs32")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_saved_recipe_loads_to_an_equal_one(path, tmp_path):
    changes = ["output=输出/模型 1", "training.bf16=true", "training.learning_rate=3e-5", "data.dataset='007'"]
    recipe = load_recipe(str(path), changes)
    recipe.save(tmp_path)
    assert load_recipe(str(tmp_path / "recipe.yaml")) == recipe
    assert "输出/模型 1" in (tmp_path / "recipe.yaml").read_text(encoding="utf-8")


def test_a_key_that_is_a_word_of_pythons(load, tmp_path):
    recipe = load(SMALLEST, "model.from=outputs/模型")
    assert recipe.model.from_ == "outputs/模型"
    assert recipe.given == {"output", "data.dataset", "data.tokenizer", "model.from"}
    recipe.save(tmp_path)
    assert yaml.safe_load((tmp_path / "recipe.yaml").read_text(encoding="utf-8"))["model"]["from"] == "outputs/模型"
    assert load_recipe(str(tmp_path / "recipe.yaml")) == recipe
    with pytest.raises(UsageError, match=r"unknown key model\.from_ in the recipe; did you mean model\.from\?"):
        load(SMALLEST, "model.from_=x")
    with pytest.raises(UsageError, match="unknown key given"):
        load(SMALLEST, "given=x")
