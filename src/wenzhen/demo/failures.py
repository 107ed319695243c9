"""What is told of a failure: its type and its place, but not its message or its values, which may quote a visitor."""

import logging
import sys
import traceback

LOGGER = logging.getLogger(__name__)


def report(error: BaseException) -> None:
    """Log that something failed."""
    LOGGER.error("%s", type_and_place(error))


def type_and_place(error: BaseException) -> str:
    """Return what may be told of an error."""
    places = traceback.extract_tb(error.__traceback__)
    place = f" at {places[-1].filename}:{places[-1].lineno}" if places else ""
    return f"{type(error).__name__}{place}"


class BriefTraceback:
    """Stands in the place of Python's module `traceback` where a library would print what it caught."""

    @staticmethod
    def print_exc() -> None:
        """Report the error that is being handled."""
        if error := sys.exception():
            report(error)


def without_message(record: logging.LogRecord) -> bool:
    """Let a record through, of an error its type and place alone; a filter of [`logging`]."""
    error = record.exc_info[1] if record.exc_info else None
    if error:
        record.msg, record.args, record.exc_info, record.exc_text = type_and_place(error), (), None, None
    return True


def hush_libraries() -> None:
    """Keep the libraries that serve the page from printing errors with all that they say.

    Gradio prints whatever its queue and its routes catch, the visitor's values with it, and has no setting for it.
    """
    import gradio.queueing
    import gradio.routes

    for module in (gradio.queueing, gradio.routes):
        module.traceback = BriefTraceback
    for name in ("asyncio", "uvicorn.error", "gradio.route_utils"):
        logging.getLogger(name).addFilter(without_message)
