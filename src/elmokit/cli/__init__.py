"""The command line: each command parses, and calls a function that does the work.

Data goes to stdout, everything else to stderr. Exit 0 done, 1 a bug of ours, 2 the user's input, 130 on Ctrl-C, 143
on SIGTERM. Nothing here imports PyTorch before a command runs.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from ..errors import ElmokitError

HELP = "elmokit --help, or elmokit COMMAND --help"


def main() -> None:
    """The entry point of `elmokit` and of `python -m elmokit`."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - else what is meant for it is printed among the data
    if sys.stdout is None:
        sys.exit(_failed("standard output is closed", "redirect it to a file, or to /dev/null"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode still shows the rest
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))


class Terminated(KeyboardInterrupt):
    """SIGTERM: the way out is that of Ctrl-C, so that temporary files are removed."""


def _terminate(*_: object) -> None:
    raise Terminated


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit status."""
    from cyclopts import CycloptsError

    from .app import app

    try:
        app(_with_standard_input(arguments), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except ElmokitError as error:
        return _failed(error.message, error.hint or HELP)
    except CycloptsError as error:
        return _failed(str(error).strip(), HELP)
    except BrokenPipeError:
        # Whoever read our output has enough; Python would complain once more on closing it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _failed(f"{where}{error.strerror or error}", "check the path, its permissions and the free space")
    except Terminated:
        print("\nterminated", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except Exception:  # noqa: BLE001 - the last line of defence says whose fault it is
        traceback.print_exc()
        print("error: this is a bug in elmokit; please report it with the lines above", file=sys.stderr)
        return 1
    return 0


def _with_standard_input(arguments: Sequence[str]) -> list[str]:
    """`--corpus -` as `--corpus=-`: a lone hyphen reads as an option otherwise."""
    joined: list[str] = []
    for argument in arguments:
        if argument == "-" and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += "=-"
        else:
            joined.append(argument)
    return joined


def _failed(message: str, hint: str) -> int:
    print(f"error: {message}\nhint: {hint}", file=sys.stderr)
    return 2
