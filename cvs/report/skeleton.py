"""The frame of every page cvs writes: one file, no network, data escaped so that no value can become
script.
"""

import html
from importlib.resources import files

import msgspec

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def embedded_json(data: object) -> str:
    """Write JSON that is safe inside a script element: no `<`, no `&`, no line separators."""
    text = msgspec.json.encode(data, enc_hook=str).decode()
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def asset(name: str) -> str:
    """Return one of the files beside this module."""
    return (files("cvs.report") / "assets" / name).read_text(encoding="utf-8")


def page(title: str, data: object, *, body: str, style: str = "", script: str = "") -> str:
    """Return a whole page; `body`, `style` and `script` are names of assets, `data` is what the script
    reads.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>\n"
        f"<style>{asset('frame.css')}{asset(style) if style else ''}</style></head>\n"
        f'<body>{asset(body)}\n<script type="application/json" id="data">{embedded_json(data)}</script>\n'
        f"<script>{asset(script) if script else ''}</script></body></html>\n"
    )
