"""The command line: one file per command, no logic; this file only finds and guards them."""

import atexit
import importlib
import logging
import os
import pkgutil
import sys
import traceback
from io import TextIOWrapper
from pathlib import Path

import click

from cvs.cli.output import print_error
from cvs.errors import EXIT_CODE_MEANINGS, CvsError, ExitCode, MissingEnvironmentError, SpecificationError
from cvs.version import VERSION

NOT_COMMANDS = {"answers", "output", "options", "recorded", "waiting"}

EXIT_CODE_HELP = "\b\nExit codes:\n" + "\n".join(
    f"  {code.value:>2}  {meaning}" for code, meaning in EXIT_CODE_MEANINGS.items()
)


class Rooms(click.Group):
    """Commands are the modules of this package, imported only when asked for, so that `--help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name a command for each file beside this one."""
        names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
        return sorted(name.replace("_", "-") for name in names if name not in NOT_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's file; its `command` is the command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"cvs.cli.{cmd_name.replace('-', '_')}")
        found: click.Command = module.command
        return found


@click.group(cls=Rooms, epilog=EXIT_CODE_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="cvs")
def group() -> None:
    """Keep views of Cassandra tables, and know which consistency they had."""


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; every failure becomes one message."""
    try:
        result = group.main(args=arguments, prog_name="cvs", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        print_error(CvsError("interrupted"))
        return 130
    except click.UsageError as mistake:
        command = mistake.ctx.command_path if mistake.ctx else "cvs"
        print_error(SpecificationError(mistake.format_message(), next_step=f"see `{command} --help`"))
        return ExitCode.USAGE
    except CvsError as refusal:
        print_error(refusal)
        return refusal.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.MET
    except (
        OSError
    ) as refusal:  # a full disk, a file that may not be read: the machine's, whatever command met it
        print_error(MissingEnvironmentError.of_system(refusal, where=_innermost_place(refusal)))
        return ExitCode.ENVIRONMENT
    except MemoryError:
        print_error(MissingEnvironmentError("this needs more memory than there is"))
        return ExitCode.ENVIRONMENT
    except Exception as fault:  # noqa: BLE001 -- because a traceback is never the answer to a user
        print_error(
            CvsError(
                f"a mistake of ours: {type(fault).__name__}: {fault}",
                where=_innermost_place(fault),
                next_step="please report it with the command line",
            )
        )
        return ExitCode.OUR_FAULT
    return int(result) if isinstance(result, int) else ExitCode.MET


def _innermost_place(fault: BaseException) -> str:
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def main() -> None:
    """Enter from the shell."""
    logging.getLogger().addHandler(
        logging.NullHandler()
    )  # what libraries say is not for people: what matters is raised
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that cannot show a character shows a question mark
            stream.reconfigure(errors="replace")
    code = run()
    session = sys.modules.get("cvs.store.session")  # not imported for this: most commands need no driver
    if session is not None and session.left_behind():
        _end_now(code)
    sys.exit(code)


def _end_now(code: int) -> None:
    """End, and not only when the driver's threads do, which wait for a node that hangs: all is said."""
    atexit._run_exitfuncs()  # there is no public name for it, and temporary files go by it
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
