"""The demo: a web page for people and an interface for programs, over the same answers as the command line's."""
