"""`cvs repair`: put right what stays wrong in a view."""

import click
import msgspec

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json, talk
from cvs.errors import ExitCode
from cvs.model.values import many
from cvs.sidecar.repairing import repair
from cvs.sidecar.views import opened_views


@click.command(name="repair")
@click.argument("view")
@settings_option
@click.option(
    "--wait", "wait_s", default=2.0, show_default=True, help="Seconds a view gets to catch up, at least."
)
@json_option
def command(view: str, settings_file: str | None, wait_s: float, as_json: bool) -> int:
    """Verify a view, let the running pipeline show it anew if rows stay wrong, and verify it again.

    Heals rows of the view's table that were changed, deleted or invented by others, at whatever write time, while
    writers go on. If rows are wrong even so, changes of base tables were missed: these are read again and what the
    pipeline does not know goes into the feed, which must be at hand. Exit code 1 if that did not help either.

    \b
    cvs repair shop.orders_by_region
    """
    with opened_views(read_settings(settings_file)) as views:
        declared = views.named(view)
        with talk().status(f"reading {declared.name} and its base tables; then the pipeline shows it anew"):
            done = repair(views, declared, wait_s=wait_s)
    code = ExitCode.MET if done.healed else ExitCode.VIOLATED
    if as_json:
        print_json("repair", msgspec.to_builtins(done, enc_hook=str, str_keys=True), exit_code=code)
        return code
    before, after = many(len(done.before.differences), "row was", "rows were"), done.after
    missed = ", ".join(f"{many(count, 'row')} of {table}" for table, count in done.corrected.items() if count)
    if missed:
        console().print(f"read again and corrected: {missed}")
    if after is None:
        console().print(f"{declared.name}: every row is right, nothing was done")
    elif done.healed:
        console().print(f"{declared.name}: {before} wrong, every row is right now")
    else:
        console().print(
            f"{declared.name}: {before} wrong, {many(len(after.differences), 'still is', 'still are')}\n"
            f"next: cvs rebuild {declared.name}",
        )
    return code
