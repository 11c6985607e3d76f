"""What simulators say and write unasked: kept off stdout and out of the current folder."""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import os
import sys
from collections.abc import Iterator

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Whatever Python or C code prints goes to stderr meanwhile: stdout may be a JSON document."""
    with contextlib.redirect_stdout(sys.stderr), _descriptor_to(1, 2):
        yield


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Nothing is printed meanwhile, neither on stdout nor on stderr; errors must come as exceptions."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            _descriptor_to(1, nowhere),
            _descriptor_to(2, nowhere),
        ):
            yield
    finally:
        os.close(nowhere)


@contextlib.contextmanager
def _descriptor_to(descriptor: int, target: int) -> Iterator[None]:
    try:
        kept = os.dup(descriptor)
    except OSError:  # closed by whoever started this process: nothing to keep clean
        yield
        return
    _flush()
    try:
        os.dup2(target, descriptor)
        yield
    finally:
        _flush()  # C's buffer would otherwise be written later, to the restored descriptor
        os.dup2(kept, descriptor)
        os.close(kept)


def _flush() -> None:
    for stream in (sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr]
    ctypes.CDLL(None).fflush(None)


def keep_mujoco_out_of_cwd() -> None:
    """MuJoCo appends its warnings to MUJOCO_LOG.TXT in the current folder unless someone takes them: log them."""
    import mujoco

    mujoco.set_mju_user_warning(_log_mujoco_warning)


def _log_mujoco_warning(message: str) -> None:
    _log.debug("MuJoCo: %s", message)


def keep_native_mujoco_out_of_cwd(library_path: str) -> None:
    """The same for an engine that has MuJoCo linked into its own library and calls it from its own threads.

    A handler in Python could wait for the interpreter's lock while its holder waits for that thread, so the handler
    is a C function that takes a text and does nothing: strlen.
    """
    try:
        handler = ctypes.c_void_p.in_dll(ctypes.CDLL(library_path), "mju_user_warning")
        handler.value = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value
    except (OSError, ValueError, AttributeError):
        _log.debug("no mju_user_warning in %s: MUJOCO_LOG.TXT may be written", library_path)
