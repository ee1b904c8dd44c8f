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
    """Return the status of the sidecar named in [http]."""
    url = f"http://{settings.http.host}:{settings.http.port}/status.json"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:
            status: SidecarStatus = json.load(answer)
            return status
    except (OSError, urllib.error.URLError, json.JSONDecodeError) as fault:
        raise MissingEnvironmentError(
            "no sidecar answers", where=url, next_step="start one with `cvs run`, or set [http]"
        ) from fault
