"""`python -m wenzhen`: the same as the `wenzhen` command, for launchers that start modules."""

from wenzhen.cli import entry_point

raise SystemExit(entry_point())
