"""A rule file becomes rules; whatever is wrong with it is said in one line."""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, get_args

import yaml

from wenzhen.answering.safety.answers import (
    ANSWER_NUMBERS,
    CLAUSE_ENDS,
    JOINT,
    OPEN_JOINT,
    Action,
    AnswerRule,
    fold_answer,
)
from wenzhen.answering.safety.context import CUES, READINGS, Context
from wenzhen.answering.safety.folding import CLAUSE, SENTENCE, fold
from wenzhen.answering.safety.patterns import NUMBER, NUMERALS, Vocabulary
from wenzhen.answering.safety.questions import Pattern, QuestionRule
from wenzhen.errors import UsageError
from wenzhen.folders import as_text

RULES_FILE = Path(__file__).with_name("rules.yaml")
QUESTION_NUMBER = rf"(?:(?<![\d.])\d+(?:\.\d+)?|(?<![{NUMERALS}])[{NUMERALS}]+)"
# Bytes of a rule file, and lists and blocks within each other, at most.
LARGEST, DEEPEST = 1_000_000, 10
# Whoever thinks of ending their life is answered by no model, whatever else a hospital leaves out.
NEEDED_CATEGORY = "self_harm"
# Characters between the signs of a pattern, where a rule does not say.
WITHIN = 40
_BETWEEN_CHINESE = re.compile(
    r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]) (?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])"
)
_SECTIONS = ("version", "notices", "words", "context", "questions", "answers")
_NOTICE = ("title", "advice", "advice_en")
_QUESTION_RULE, _QUESTION_OPTIONS = ("id", "category", "notice", "patterns"), ("unless", "despite", "within")
_ANSWER_RULE, _ANSWER_OPTIONS = ("id", "action", "patterns"), ("text", "beside", "unless", "within")
_LISTS = ("patterns", "unless", "despite", "beside")


@dataclass(frozen=True, slots=True)
class Notice:
    """What is answered in an emergency: a headline and what to do, in Chinese and English."""

    title: str
    advice: str
    advice_en: str


@dataclass(frozen=True, slots=True)
class RuleFile:
    """All that a rule file holds.

    Attributes:
        version: of the rules, as the file says.
        notices: by name.
        vocabulary: what the rules for questions are made of.
        sign: gives a part of their patterns as a regular expression; few are needed, each is compiled once.
        context: the cues around a sign.
        questions: the gravest rule first.
        answers: of those that hold of a piece of text the first counts.
        beginning: see [`AnswerChecker`].
    """

    version: str
    notices: Mapping[str, Notice]
    vocabulary: Vocabulary
    sign: Callable[[str], re.Pattern[str]]
    context: Context
    questions: tuple[QuestionRule, ...]
    answers: tuple[AnswerRule, ...]
    beginning: re.Pattern[str]


def load_rules(file: Path = RULES_FILE) -> RuleFile:
    """Read and check a rule file.

    Raises:
        UsageError: there is none, or something in it is not as it must be; the message says what.
    """
    try:
        return _rules_of(_read(file))
    except OSError as error:
        raise UsageError(
            f"the rule file {as_text(file)} cannot be read ({error.strerror}); name a YAML file"
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        what = " ".join(str(error).split())
        raise UsageError(f"the rule file {as_text(file)} is no YAML in UTF-8: {what}") from error
    except UsageError as error:
        raise UsageError(f"the rule file {as_text(file)}: {error}") from error


def _read(file: Path) -> Any:
    """Return what a YAML file holds; a key that stands twice is refused, where YAML's loader takes the last."""
    if file.exists() and not file.is_file():
        raise UsageError("it cannot be read, for it is no file; name a YAML file")
    with file.open("rb") as opened:
        content = opened.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise UsageError(f"it has more than {LARGEST:,} bytes, too many for rules")
    text = content.decode()
    _check_events(text)
    node = yaml.compose(text, Loader=yaml.CSafeLoader)
    _check_keys_once(node)
    return yaml.CSafeLoader("").construct_document(node) if node else None


def _check_events(text: str) -> None:
    """Refuse what is deeper than rules are, or refers to itself, before anything is made of it."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent) or (isinstance(event, yaml.NodeEvent) and event.anchor):
            raise UsageError(
                f"line {line} has an anchor or an alias (& or *); write out what is meant, or use `words`"
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise UsageError(f"line {line} is more than {DEEPEST} lists and blocks deep; rules need fewer")


def _check_keys_once(node: yaml.Node | None) -> None:
    """Refuse a key that stands twice in the same place."""
    if isinstance(node, yaml.MappingNode):
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := [key for key, count in keys.items() if count > 1]:
            raise UsageError(f"line {node.start_mark.line + 1} begins a block in which {twice[0]} stands twice")
    if isinstance(node, yaml.CollectionNode):
        for part in node.value:
            for inner in part if isinstance(part, tuple) else (part,):
                _check_keys_once(inner)


def _rules_of(content: Any) -> RuleFile:
    """Make rules of a file's content."""
    content = _mapping(content, "the file", required=_SECTIONS)
    version = content["version"]
    if not isinstance(version, str | date) or not str(version).strip():
        raise UsageError(f"version must be a date or a text, got {version!r}")
    notices = {
        name: Notice(**_texts_by_name(_mapping(notice, f"notice {name}", required=_NOTICE), f"notice {name}"))
        for name, notice in _mapping(content["notices"], "notices").items()
    }
    words = {name: _texts(items, f"words, {name}") for name, items in _mapping(content["words"], "words").items()}
    cues = _mapping(content["context"], "context", required=CUES)
    vocabulary = Vocabulary(
        words, lambda word: fold(word).text.strip(CLAUSE + SENTENCE), {NUMBER: QUESTION_NUMBER}, CLAUSE + SENTENCE
    )
    answer_vocabulary = Vocabulary(words, lambda word: fold_answer(word).strip(), ANSWER_NUMBERS, CLAUSE_ENDS, JOINT)
    questions = [
        _question_rule(rule, notices, vocabulary)
        for rule in _rules(content["questions"], "questions", _QUESTION_RULE, _QUESTION_OPTIONS)
    ]
    if NEEDED_CATEGORY not in {rule.category for rule in questions}:
        raise UsageError(f"no rule under `questions` has the category {NEEDED_CATEGORY}; there must be one")
    entries = _rules(content["answers"], "answers", _ANSWER_RULE, _ANSWER_OPTIONS)
    answers = [_answer_rule(rule, answer_vocabulary) for rule in entries]
    beginnings = [
        answer_vocabulary.prefix(pattern)
        for rule in entries
        if rule["action"] != "show"
        for pattern in rule["patterns"]
    ]
    return RuleFile(
        str(version).strip(),
        notices,
        vocabulary,
        cache(vocabulary.search_for),
        Context({name: _texts(cues[name], f"context, {name}") for name in CUES}, vocabulary),
        tuple(questions),
        tuple(answers),
        # (?!) matches nothing.
        re.compile(rf"(?:{'|'.join(beginnings) or '(?!)'}){OPEN_JOINT}\Z"),
    )


def _question_rule(rule: dict[str, Any], notices: Mapping[str, Notice], vocabulary: Vocabulary) -> QuestionRule:
    """Make a rule for questions of its checked entry."""
    with _named(rule):
        if rule["notice"] not in notices:
            raise UsageError(f"no notice {rule['notice']!r}; the notices are: {', '.join(notices)}")
        for reading in rule.get("despite", []):
            if reading not in READINGS:
                raise UsageError(f"despite may hold {', '.join(READINGS)}, got {reading!r}")
        return QuestionRule(
            id=rule["id"],
            category=rule["category"],
            notice=rule["notice"],
            patterns=tuple(_pattern(pattern, vocabulary) for pattern in rule["patterns"]),
            unless=_any_of(rule.get("unless"), vocabulary),
            despite=frozenset(rule.get("despite", [])),
            within=rule.get("within", WITHIN),
        )


def _answer_rule(rule: dict[str, Any], vocabulary: Vocabulary) -> AnswerRule:
    """Make a rule for answers of its checked entry."""
    with _named(rule):
        if rule["action"] not in get_args(Action):
            raise UsageError(f"action must be {' or '.join(get_args(Action))}, got {rule['action']!r}")
        if ("text" in rule) == (rule["action"] == "show"):
            raise UsageError("text goes with mark and withhold, and is needed there")
        return AnswerRule(
            id=rule["id"],
            action=rule["action"],
            text=rule.get("text", ""),
            found=vocabulary.search_for(*rule["patterns"]),
            beside=_any_of(rule.get("beside"), vocabulary),
            unless=_any_of(rule.get("unless"), vocabulary),
            within=rule.get("within", WITHIN),
        )


def _pattern(expression: str, vocabulary: Vocabulary) -> Pattern:
    """Make a pattern of signs joined by +."""
    parts = tuple(part.strip() for part in expression.split("+"))
    needs = 0
    for part in parts:
        vocabulary.regex(part)
        needs |= vocabulary.needs(part)
    return Pattern(parts, needs)


def _any_of(expressions: Sequence[str] | None, vocabulary: Vocabulary) -> re.Pattern[str] | None:
    """Make one regular expression of a rule's list, if it has it."""
    return vocabulary.search_for(*expressions) if expressions else None


@contextmanager
def _named(rule: Mapping[str, Any]) -> Iterator[None]:
    """Say in which rule something is wrong."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"rule {rule['id']}: {error}") from error


def _rules(value: Any, where: str, required: Sequence[str], options: Sequence[str]) -> list[dict[str, Any]]:
    """Return a list of rules, each with the keys and the types that it must have."""
    if not isinstance(value, list):
        raise UsageError(f"{where} must be a list of rules, got {value!r}")
    for number, rule in enumerate(value, 1):
        place = f"{where}, rule {number}"
        _mapping(rule, place, required, options)
        for key in rule:
            if key in _LISTS:
                _texts(rule[key], f"{place}, {key}")
            elif key != "within":
                _texts_by_name({key: rule[key]}, place)
            elif not isinstance(rule[key], int) or isinstance(rule[key], bool) or not 0 <= rule[key] <= 1000:
                raise UsageError(f"{place}: within must be a whole number of characters to 1000, got {rule[key]!r}")
    if twice := [name for name, count in Counter(rule["id"] for rule in value).items() if count > 1]:
        raise UsageError(f"{where}: two rules are called {twice[0]}; give each an id of its own")
    return value


def _mapping(
    value: Any, where: str, required: Sequence[str] | None = None, options: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a mapping from names, which holds what it must and nothing else, if that is given."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"{where} must hold names and what belongs to them, got {type(value).__name__}")
    if required is None:
        return value
    for key in value:
        if key not in (*required, *options):
            near = difflib.get_close_matches(key, [*required, *options], n=1)
            hint = f"did you mean {near[0]}?" if near else f"the keys are: {', '.join([*required, *options])}"
            raise UsageError(f"{where}: unknown key {key}; {hint}")
    for key in required:
        if key not in value:
            raise UsageError(f"{where} lacks {key}")
    return value


def _texts_by_name(values: dict[str, Any], where: str) -> dict[str, str]:
    """Return a mapping whose values are texts that are not empty."""
    for key, value in values.items():
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{where}: {key} must be a text, got {value!r}; put it in quotes")
    # A folded block of YAML puts a space where a line ends; Chinese has none there.
    return {key: _BETWEEN_CHINESE.sub("", value.strip()) for key, value in values.items()}


def _texts(value: Any, where: str) -> list[str]:
    """Return a list of texts that are not empty."""
    if not isinstance(value, list) or not value:
        raise UsageError(f"{where} must be a list of texts, got {value!r}")
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise UsageError(f"{where}: every entry must be a text, got {item!r}; put it in quotes")
    return value
