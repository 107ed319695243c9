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


# What all would read first is read once; each piece of code then has an interpreter in which neither transformers nor
# the package has been imported.
RUN_EACH = """
import json, os, sys, traceback
import torch._dynamo, torch.distributed.fsdp, torch.distributed.tensor, scipy.optimize

for name, code in json.load(sys.stdin).items():
    if not os.fork():
        for stream, kind in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{name}.{kind}", os.O_CREAT | os.O_WRONLY), stream)
        assert not {"transformers", "wenzhen"} & set(sys.modules)
        status = 1
        try:
            exec(code, {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, status = os.wait()
    print(json.dumps({name: status}))
"""


def run_python(codes: dict[str, str], folder: Path) -> dict[str, str]:
    """Run each code in an interpreter of its own that starts in `folder`; returns by name what they printed."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "home"),
        "HF_MODULES_CACHE": str(folder / "modules"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN_EACH],
        input=json.dumps(codes),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        ((name, status),) = json.loads(line).items()
        assert status == 0, (name, (folder / f"{name}.err").read_text(encoding="utf-8"))
    return {name: (folder / f"{name}.out").read_text(encoding="utf-8") for name in codes}


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


def test_importing_the_package_imports_neither_torch_nor_transformers():
    code = "import wenzhen, sys; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


# By name: what is imported first, whether the folder's code is trusted, and whose class is loaded.
READERS = {
    "package first": ("import wenzhen\nfrom transformers import AutoModelForSeq2SeqLM", False, "wenzhen."),
    "transformers first": ("from transformers import AutoModelForSeq2SeqLM\nimport wenzhen", False, "wenzhen."),
    "model first": (
        "from wenzhen.models.transformer.modeling_transformer import WenzhenModel\n"
        "from transformers import AutoModelForSeq2SeqLM",
        False,
        "wenzhen.",
    ),
    "layers first": (
        "import wenzhen\nfrom transformers.modeling_layers import GradientCheckpointingLayer\n"
        "from transformers import AutoModelForSeq2SeqLM",
        False,
        "wenzhen.",
    ),
    "code from the folder": (BLOCK_WENZHEN, True, "transformers_modules."),
}


@pytest.fixture(scope="module")
def classifier(model) -> WenzhenForSequenceClassification:
    torch.manual_seed(0)
    return WenzhenForSequenceClassification(model.config).eval()


@pytest.fixture(scope="module")
def printed(saved, classifier, tmp_path_factory) -> dict[str, str]:
    """What fresh interpreters print of the model and of the classifier."""
    folder = tmp_path_factory.mktemp("readers")
    (folder / "classifier").mkdir()
    save_with_code(classifier, folder / "classifier")

    def load(auto: str, source: Path, remote: bool, inputs: dict[str, list[list[int]]]) -> str:
        return LOAD_AND_PRINT.format(auto=auto, folder=str(source), remote=remote, inputs=inputs)

    codes = {
        name: imports + load("AutoModelForSeq2SeqLM", saved, remote, INPUTS)
        for name, (imports, remote, _) in READERS.items()
    }
    question = {"input_ids": INPUTS["input_ids"]}
    codes["classifier"] = BLOCK_WENZHEN + load(
        "AutoModelForSequenceClassification", folder / "classifier", True, question
    )
    return run_python(codes, folder)


@pytest.mark.parametrize("name", READERS)
def test_fresh_interpreter_loads_the_same_model(printed, logits, name):
    result = json.loads(printed[name].splitlines()[-1])
    assert result["module"].startswith(READERS[name][2])
    torch.testing.assert_close(torch.tensor(result["logits"]), logits, rtol=0, atol=1e-6)


def test_fresh_interpreter_loads_the_same_classifier_without_the_package(printed, classifier):
    result = json.loads(printed["classifier"].splitlines()[-1])
    assert result["module"].startswith("transformers_modules.")
    with torch.no_grad():
        expected = classifier(torch.tensor(INPUTS["input_ids"])).logits
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
