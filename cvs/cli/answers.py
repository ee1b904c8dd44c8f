"""What the running sidecar says of itself; apart from all that needs the driver, so that `cvs status` is quick."""

import json
import urllib.error
import urllib.request
from typing import Any

from cvs.errors import MissingEnvironmentError
from cvs.sidecar.settings import Settings

SidecarStatus = dict[str, Any]  # because it is JSON
ANSWER_SECONDS_MAX = 5.0


def ask_sidecar(settings: Settings) -> SidecarStatus:
    """Return the status of the sidecar named in [http]; refuse that of another pipeline, which has that port too."""
    if not settings.http.port:
        raise MissingEnvironmentError(
            "the sidecar is not asked: [http] port = 0 switches its status off",
            next_step="give it a port, or see `cvs verify`, which asks the cluster",
        )
    url = f"http://{settings.http.host}:{settings.http.port}/status.json"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:
            status: SidecarStatus = json.load(answer)
    except (OSError, urllib.error.URLError, json.JSONDecodeError) as fault:
        raise MissingEnvironmentError(
            "no sidecar answers", where=url, next_step="start one with `cvs run`, or set [http]"
        ) from fault
    theirs, ours = status.get("pipeline"), settings.views.state_keyspace
    if theirs != ours:
        raise MissingEnvironmentError(
            f"the sidecar of another pipeline answers: its state is in {theirs}, ours in {ours}",
            where=url,
            next_step="give each an [http] port of its own, and start ours",
        )
    return status
