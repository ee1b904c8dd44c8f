"""One screen: what was judged, the properties, the level, the worst news in words, the next command."""

from typing import Any

from cvs.errors import SpecificationError
from cvs.model.values import many
from cvs.report.explain import cut, shown_key

Document = dict[str, Any]
TITLES = {"record": "by view record", "view": "by whole view", "snapshots": "by snapshot"}
OPTIONS = {"record": "--expect", "view": "--expect-view", "snapshots": "--expect-snapshots"}
EXCLUDED_TOLD = 5
_MARKS = {"holds": "holds", "violated": "VIOLATED", "undecided": "undecided"}


RECORDED_ORDER = "complete-recorded-order"
OTHERWISE = "otherwise"  # not in the recorded order: no level fails by it


def told_otherwise(found: Document) -> bool:
    """Say whether a property of a verdict only says that the recorded order was not shown."""
    violated = found["property"] == RECORDED_ORDER and found["verdict"] == "violated"
    return violated and not found["worst"]["reason"].startswith("needs ")


def screen(document: Document, *, paths: str, finding: str | None = None) -> str:
    """Return the text of a verdict."""
    if "registers" in document:
        return _registers(document)
    lines = [_head(document), ""]
    for granularity in document["granularities"]:
        lines += _granularity(granularity)
    levels = " · ".join(
        f"{_interval(g['level'])} {TITLES[g['granularity']]}" for g in document["granularities"]
    )
    expected = ", ".join(f"{level} {TITLES[g]}" for g, level in document["expected"].items())
    lines += [
        f"level: {levels or 'nothing to judge'}" + (f"   (expected: {expected})" if expected else ""),
        "",
    ]
    lines += _unasked(document)
    if finding is not None:
        _require(document, finding)
    news = _news(document, finding)
    lines += [f"  {sentence}" for sentence in news]
    windows = document["torn_windows"]
    if windows:
        longest = max(w["nanoseconds"] for w in windows)
        lines.append(f"  {many(len(windows), 'torn window')}, the longest {longest / 1e6:,.3f} ms.")
    lines += [""] if news or windows else []
    lines += _excluded(document.get("excluded", []))
    worst = _worst_property(document)
    details = f"cvs audit {paths} --finding {worst}" if worst and not finding else f"cvs audit {paths} --json"
    lines.append(f"  Details:  {details}        Picture:  cvs report {paths}")
    return "\n".join(lines)


def _unasked(document: Document) -> list[str]:
    """Say that nothing is recorded of what a level was expected of, and which expectations something tells of."""
    told = {
        g["granularity"]
        for g in document["granularities"]
        if any(found["property"] == "converged" for found in g["properties"])
    }
    ask = " or ".join(OPTIONS[g] for g in OPTIONS if g in told)
    lines = [
        f"  Nothing recorded tells of a level {TITLES[g]}: {OPTIONS[g]} is undecided."
        + (f" Ask {ask}." if ask else "")
        for g in document["expected"]
        if g not in told
    ]
    return [*lines, ""] if lines else []


def _require(document: Document, finding: str) -> None:
    known = dict.fromkeys(f["property"] for g in document["granularities"] for f in g["properties"])
    if finding not in known:
        raise SpecificationError(f"nothing was found about {finding!r}", next_step=", ".join(known))


def _head(document: Document) -> str:
    parts = (
        f"{many(document['processes'], 'process', 'processes')} · {many(len(document['views']), 'view')} · "
        f"{many(document['events'], 'event')} · "
        f"{document['seconds']:,.3f} s"
    )
    return f"run {document['run']}   {parts}   base time-line: {document['reference']}"


def _excluded(entries: list[Document]) -> list[str]:
    """Name what is in quarantine: it is in no view, and no view was judged by it."""
    if not entries:
        return []
    told = [f"    {it['source']}  {cut(it['key'])}: {it['reason']}" for it in entries[:EXCLUDED_TOLD]]
    more = (
        [f"    and {len(entries) - EXCLUDED_TOLD:,} more: cvs quarantine"]
        if len(entries) > EXCLUDED_TOLD
        else []
    )
    return [f"  Not judged, because in quarantine: {many(len(entries), 'row')}", *told, *more, ""]


def _granularity(granularity: Document) -> list[str]:
    lines = [f"  {TITLES[granularity['granularity']]}"]
    for found in granularity["properties"]:
        total = found["holds"] + found["violated"] + found["undecided"]
        worst = found["worst"]
        mark = OTHERWISE if told_otherwise(found) else _MARKS[found["verdict"]]
        where = f"{total:,} of {total:,}" if found["verdict"] == "holds" else _where(found, worst, total)
        if found["property"] == "staleness" and "versions_behind" in found:
            mark = f"{found['versions_behind']:,} versions"
            where = f"at most, and {found['nanoseconds_behind'] / 1e6:,.3f} ms behind what had returned"
        elif found["property"] == "staleness":
            continue
        elif str(worst["reason"]).startswith("needs "):
            mark, where = (
                "not reached",
                f"({worst['reason']})" if found["verdict"] == "violated" else "(undecided)",
            )
        lines.append(f"    {found['property']:<24} {mark:<12} {where}")
    return [*lines, ""]


def _where(found: Document, worst: Document, total: int) -> str:
    number = found[found["verdict"]]
    key = f", record {shown_key(tuple(worst['key']))}" if worst["key"] is not None else ""
    after = f", at event {worst['event']:,}" if worst["event"] else ""
    why = f": {worst['reason']}" if worst["reason"] else ""
    if found["verdict"] == "violated" and found["undecided"]:
        total_text = f"{total:,} ({found['undecided']:,} undecided)"
    else:
        total_text = f"{total:,}"
    return f'{number:,} of {total_text}: view "{worst["view"]}"{key}{after}{why} [{worst["tier"]}]'


def _interval(level: Document) -> str:
    if level["proved"] == level["not_refuted"]:
        return str(level["proved"])
    return f"between {level['proved']} and {level['not_refuted']}"


def _news(document: Document, finding: str | None) -> list[str]:
    """Tell the worst of each property; of one property asked for, everything."""
    told = []
    for granularity in document["granularities"]:
        for found in granularity["properties"]:
            if finding is not None:
                if found["property"] == finding:
                    told += [f["sentence"] for f in found["findings"][:50]] or [found["worst"]["sentence"]]
            elif told_otherwise(found):
                continue
            elif found["verdict"] == "violated" and not found["worst"]["reason"].startswith("needs "):
                told.append(found["worst"]["sentence"])
    return list(dict.fromkeys(told)) if finding is not None else list(dict.fromkeys(told))[:4]


def _worst_property(document: Document) -> str | None:
    for verdict in ("violated", "undecided"):
        for granularity in document["granularities"]:
            for found in granularity["properties"]:
                needs = found["worst"]["reason"].startswith("needs ")
                if found["verdict"] == verdict and not needs and not told_otherwise(found):
                    return str(found["property"])
    return None


def _registers(document: Document) -> str:
    bad = [r for r in document["registers"] if r["verdict"] != "holds"]
    lines = [
        (
            f"{many(document['operations'], 'operation')} on {many(len(document['registers']), 'register')}, "
            f"{document['lines_passed_over']:,} lines passed over"
        ),
        "",
        f"  linearizability   {_MARKS[document['linearizability']]}",
    ]
    for register in bad[:10]:
        at = f" at line {register['event']:,}" if register["event"] else ""
        why = f": {register['reason']}" if register["reason"] else ""
        lines.append(f"    register {register['key']!r} {register['verdict']}{at}{why}")
    if len(bad) > 10:
        lines.append(f"    and {len(bad) - 10:,} more: add --json")
    return "\n".join(lines)
