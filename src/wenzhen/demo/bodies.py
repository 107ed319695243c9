"""What the body of a request may hold: what the page and programs send, of the types that the function takes.

Gradio prints values that do not fit, so they must not come that far. What was checked is written anew, and nothing
else comes along.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wenzhen.demo import texts

if TYPE_CHECKING:
    from gradio.blocks import BlockFunction
    from gradio.components import Component

# What a request may say besides its values; no file, no token, nothing that Gradio would take for its own.
FIELDS = {"session_hash": str, "event_id": str, "fn_index": int, "trigger_id": int}
NAME = re.compile(r"[\w.@+-]{1,100}", re.ASCII)


class NotAdmittedError(Exception):
    """A request that is not let in.

    Args:
        status: of HTTP.
        detail: why, in the form that Gradio's page and its client understand.
    """

    def __init__(self, status: int, detail: Any) -> None:
        self.status, self.detail = status, detail
        super().__init__(status)


def checked_body(action: str, body: bytes, functions: "Mapping[int, BlockFunction]") -> bytes:
    """Return a body with nothing in it but what its function takes.

    Args:
        action: the path behind Gradio's prefix: `queue/join`, `run/NAME`, `call/NAME`, `cancel` or `reset`.
        body: JSON.
        functions: those of the page, by number.

    Raises:
        NotAdmittedError: 404 for no such function, 422 where something is missing or of the wrong type.
    """
    given = read_object(body)
    fields = checked_fields(given)
    verb, _, name = action.partition("/")
    if verb not in ("cancel", "reset"):
        if verb == "queue" and "session_hash" not in fields:
            raise malformed(texts.NO_FIELD.format(name="session_hash"))
        number = None if verb == "call" else fields.get("fn_index")
        function = find_function(functions, name if number is None else number)
        if verb == "run" and function.queue:
            raise NotAdmittedError(404, texts.NO_SUCH_PAGE)
        fields |= {"fn_index": function._id, "data": checked_data(function, given.get("data"))}
    return json.dumps(fields, ensure_ascii=False).encode()


def read_object(body: bytes) -> dict[str, Any]:
    """Read a JSON object; what JSON does not know, as half a character or a number without end, is refused."""
    try:
        content = json.loads(body)
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise malformed(texts.NO_OBJECT) from None
    if not isinstance(content, dict):
        raise malformed(texts.NO_OBJECT)
    return content


def checked_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of [`FIELDS`] that are given and not null."""
    fields = {name: given[name] for name in FIELDS if given.get(name) is not None}
    for name, value in fields.items():
        if type(value) is not FIELDS[name] or (isinstance(value, str) and not NAME.fullmatch(value)):
            raise malformed(texts.NO_FIELD.format(name=name))
    return fields


def find_function(functions: "Mapping[int, BlockFunction]", wanted: str | int) -> "BlockFunction":
    """Return a function of the page by its number or its name."""
    for number, function in functions.items():
        if function.fn and wanted == (number if isinstance(wanted, int) else function.api_name):
            return function
    raise NotAdmittedError(404, texts.NO_SUCH_PAGE)


def checked_data(function: "BlockFunction", data: Any) -> list[Any]:
    """Return a function's values; what a program leaves out at their end has its default."""
    from gradio.components.api_component import Api

    inputs: Sequence[Component] = function.inputs
    if not isinstance(data, list):
        raise malformed(texts.NO_FIELD.format(name="data"))
    missing = [component.value for component in inputs[len(data) :] if isinstance(component, Api)]
    values = [*data, *(value for value in missing if value is not None)]
    if len(values) != len(inputs):
        raise malformed(texts.WRONG_COUNT.format(expected=len(inputs), given=len(data)))
    problems = [problem(component, value) for component, value in zip(inputs, values, strict=True)]
    if any(problems):
        raise malformed(*problems)
    return values


def problem(component: "Component", value: Any) -> str:
    """Say what is wrong with a value for one of a function's inputs; nothing where it fits."""
    import gradio as gr

    match component:
        case gr.Slider():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not component.minimum <= value <= component.maximum:
                return texts.NO_NUMBER.format(low=component.minimum, high=component.maximum)
        case gr.Radio():
            choices = [choice for _, choice in component.choices]
            if value not in choices:
                return texts.NO_CHOICE.format(choices=", ".join(map(str, choices)))
        case gr.Dataset():
            if type(value) is not int or not 0 <= value < len(component.raw_samples):
                return texts.NO_CHOICE.format(choices=f"0–{len(component.raw_samples) - 1}")
        case gr.Textbox() | gr.Dropdown():
            if not isinstance(value, str | None):
                return texts.NO_TEXT
        case _:
            if not isinstance(value, str):
                return texts.NO_TEXT
    return ""


def malformed(*problems: str) -> NotAdmittedError:
    """Return the refusal of values, one problem for each, in Gradio's form for what does not fit."""
    detail = [{"__type__": "validate", "is_valid": not problem, "message": problem} for problem in problems]
    return NotAdmittedError(422, detail)
