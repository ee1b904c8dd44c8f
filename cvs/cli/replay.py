"""`cvs replay`: replay committed stories and hold them to the level they are written down with."""

from pathlib import Path

import click

from cvs.cli.options import text_of
from cvs.cli.output import console, json_option, print_json
from cvs.errors import ExitCode


@click.command()
@click.argument("stories", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@json_option
def command(stories: tuple[Path, ...], as_json: bool) -> int:
    """Replay story files (or folders of them): what the view record showed, and whether the level is as told.

    \b
    cvs replay tests/stories/programs
    """
    from cvs.suite.single import replayed_story

    files = [file for path in stories for file in (sorted(path.glob("*.story")) if path.is_dir() else [path])]
    told = [(file, *replayed_story(text_of(file), str(file))) for file in files]
    code = ExitCode.MET if all(kept for _, kept, _ in told) else ExitCode.VIOLATED
    if as_json:
        result = [{"story": str(file), "as_told": kept, "lines": lines} for file, kept, lines in told]
        print_json("replay", result, exit_code=code)
        return code
    out = console()
    for file, kept, lines in told:
        if len(told) > 1 and kept:
            out.print(f"as told      {file.name}")
            continue
        out.print("\n".join([f"{'as told' if kept else 'NOT AS TOLD'}  {file}", *lines]))
    return code
