"""Loading through transformers' Auto classes, in fresh interpreters where the order of imports can be chosen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

import wenzhen  # noqa: F401
from wenzhen.models.saving import save_with_code
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import (
    WenzhenForConditionalGeneration,
    WenzhenForSequenceClassification,
    WenzhenModel,
)

INPUTS = {"input_ids": [[5, 6, 7, 8, 3]], "decoder_input_ids": [[2, 9, 10]]}

BLOCK_WENZHEN = """
import sys

class Block:
    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] == "wenzhen":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

sys.meta_path.insert(0, Block())
try:
    import wenzhen
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("wenzhen can be imported")
from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification
"""

LOAD_AND_PRINT = """
import json, torch
model = {auto}.from_pretrained({folder!r}, trust_remote_code={remote})
inputs = {{name: torch.tensor(ids) for name, ids in {inputs}.items()}}
with torch.no_grad():
    logits = model(**inputs).logits
print(json.dumps({{"module": type(model).__module__, "logits": logits.tolist()}}))
"""


def run_python(code: str, folder: Path) -> str:
    """Run `code` in a fresh interpreter that starts in `folder`; returns what it printed."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "home"),
        "HF_MODULES_CACHE": str(folder / "modules"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def model() -> WenzhenForConditionalGeneration:
    torch.manual_seed(0)
    config = WenzhenConfig(vocab_size=50, d_model=32, encoder_layers=2, decoder_layers=2, attention_heads=4, d_ff=48)
    return WenzhenForConditionalGeneration(config).eval()


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory) -> Path:
    """A folder with the code beside the weights, as training writes it."""
    folder = tmp_path_factory.mktemp("saved")
    with pytest.MonkeyPatch.context() as patch:
        # Registration is kept in the classes: other tests must not find it there.
        for registered in (WenzhenConfig, WenzhenForConditionalGeneration):
            patch.setattr(registered, "_auto_class", None)
        WenzhenConfig.register_for_auto_class()
        WenzhenForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
        model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(**{name: torch.tensor(ids) for name, ids in INPUTS.items()}).logits


def test_importing_the_package_imports_neither_torch_nor_transformers(tmp_path):
    printed = run_python("import wenzhen, sys; print(sorted({'torch', 'transformers'} & set(sys.modules)))", tmp_path)
    assert printed.strip() == "[]"


@pytest.mark.parametrize(
    ("imports", "remote", "module"),
    [
        ("import wenzhen\nfrom transformers import AutoModelForSeq2SeqLM", False, "wenzhen."),
        ("from transformers import AutoModelForSeq2SeqLM\nimport wenzhen", False, "wenzhen."),
        (
            "from wenzhen.models.transformer.modeling_transformer import WenzhenModel\n"
            "from transformers import AutoModelForSeq2SeqLM",
            False,
            "wenzhen.",
        ),
        (
            "import wenzhen\nfrom transformers.modeling_layers import GradientCheckpointingLayer\n"
            "from transformers import AutoModelForSeq2SeqLM",
            False,
            "wenzhen.",
        ),
        (BLOCK_WENZHEN, True, "transformers_modules."),
    ],
    ids=["package first", "transformers first", "model first", "layers first", "code from the folder"],
)
def test_fresh_interpreter_loads_the_same_model(saved, logits, tmp_path, imports, remote, module):
    code = LOAD_AND_PRINT.format(auto="AutoModelForSeq2SeqLM", folder=str(saved), remote=remote, inputs=INPUTS)
    result = json.loads(run_python(imports + code, tmp_path).splitlines()[-1])
    assert result["module"].startswith(module)
    torch.testing.assert_close(torch.tensor(result["logits"]), logits, rtol=0, atol=1e-6)


def test_fresh_interpreter_loads_the_same_classifier_without_the_package(model, tmp_path):
    torch.manual_seed(0)
    classifier = WenzhenForSequenceClassification(model.config).eval()
    (tmp_path / "saved").mkdir()
    save_with_code(classifier, tmp_path / "saved")
    inputs = {"input_ids": INPUTS["input_ids"]}
    auto = "AutoModelForSequenceClassification"
    code = LOAD_AND_PRINT.format(auto=auto, folder=str(tmp_path / "saved"), remote=True, inputs=inputs)
    result = json.loads(run_python(BLOCK_WENZHEN + code, tmp_path).splitlines()[-1])
    assert result["module"].startswith("transformers_modules.")
    with torch.no_grad():
        expected = classifier(torch.tensor(inputs["input_ids"])).logits
    torch.testing.assert_close(torch.tensor(result["logits"]), expected, rtol=0, atol=1e-6)


def test_folder_names_its_own_code(saved):
    auto_map = json.loads((saved / "config.json").read_text(encoding="utf-8"))["auto_map"]
    assert auto_map == {
        "AutoConfig": "configuration_transformer.WenzhenConfig",
        "AutoModelForSeq2SeqLM": "modeling_transformer.WenzhenForConditionalGeneration",
    }
    assert {path.name for path in saved.glob("*.py")} == {"configuration_transformer.py", "modeling_transformer.py"}


@pytest.mark.parametrize(
    ("auto", "expected"),
    [
        (AutoConfig, WenzhenConfig),
        (AutoModel, WenzhenModel),
        (AutoModelForSeq2SeqLM, WenzhenForConditionalGeneration),
    ],
)
def test_auto_class_gives_the_packages_class(saved, auto, expected):
    assert type(auto.from_pretrained(saved)) is expected


def test_auto_model_loads_the_weights_of_the_whole_model(model, saved):
    loaded, info = AutoModel.from_pretrained(saved, output_loading_info=True)
    assert not info["missing_keys"]
    for name, tensor in model.model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
