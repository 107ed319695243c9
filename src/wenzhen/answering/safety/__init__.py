"""What must not be left to a model: emergencies in a question, doses in an answer; by fixed rules in rules.yaml."""

from wenzhen.answering.safety.answers import Finding
from wenzhen.answering.safety.rules import CheckedAnswer, SafetyNotice, SafetyRules, rules_file

__all__ = ["CheckedAnswer", "Finding", "SafetyNotice", "SafetyRules", "rules_file"]
