"""Text into statements: the parser's trees, and a refusal with a place where it finds none.

The parser takes a CREATE that it cannot read as one unread command. Its query is parsed again then, at the place it
has in the text, so that lines and columns are those of the file.
"""

import logging
import re

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from cvs.errors import SpecificationError
from cvs.plan.nearest import complaint, cql, misspelt
from cvs.plan.refusal import shown

QUOTED = "quoted"  # in the meta of a text: whether it stands in double quotes
_CRASHES = (IndexError, KeyError, ValueError, AttributeError, TypeError)  # arguments it does not count


class _Parser(SparkParser):
    def _text(self, token: Token) -> exp.Expr:
        literal = exp.Literal.string(token.text)
        literal.update_positions(token)
        literal.meta[QUOTED] = self.sql[token.start] == '"'
        return literal

    PRIMARY_PARSERS = {**SparkParser.PRIMARY_PARSERS, TokenType.STRING: _text}  # noqa: RUF012 as the parser has it


class ViewSql(Spark):
    """Spark's SQL, whose texts know where they stand and how they are quoted."""

    Parser = _Parser


def statements(text: str) -> list[exp.Expr]:
    """Return the statements of a text, all of them read."""
    try:
        found = [node for node in _parsed(text) if node is not None]
    except SqlglotError as error:
        raise _no_sql(error, text) from None
    for node in found:
        if isinstance(node, exp.Command):
            raise _unread(node, text)
    return found


def _unread(node: exp.Command, text: str) -> SpecificationError:
    """Return the refusal of a statement that the parser gave up on: its query alone says where."""
    written = f"{node.this}{node.expression}"
    start = max(0, text.find(written))
    statement = _blank(text[:start]) + written
    query = re.split(r"\bAS\b", written, maxsplit=1, flags=re.IGNORECASE)[-1]
    try:
        _parsed(_blank(statement[: -len(query)]) + query)
    except SqlglotError as error:
        return _no_sql(error, statement)
    return _misspelt(statement) or SpecificationError(
        f"`{shown(node)}` is not SQL of views",
        where=_place(text, start),
        next_step="CREATE MATERIALIZED VIEW ... AS SELECT",
    )


def _no_sql(error: SqlglotError, text: str) -> SpecificationError:
    """Return the refusal of a text that cannot be parsed."""
    details = (getattr(error, "errors", None) or [{}])[0]
    line, word = details.get("line"), details.get("highlight") or ""
    where = f"line {line}:{max(1, details['col'] - len(word) + 1)}" if line else ""
    if meant := cql(text):
        return SpecificationError(f"this is not SQL: {meant[0]} is CQL", where=where, next_step=meant[1])
    if wrong := _misspelt(text):
        return wrong
    description = details.get("description", str(error.__cause__ or error).splitlines()[0])
    if opened := re.match(r"Missing \S+ from \d+:(\d+)", description):
        where = _place(text, int(opened[1]))
    before = (details.get("start_context") or "").split()
    reason, step = complaint(description, word, before[-1] if before else "")
    return SpecificationError(f"this is not SQL: {reason}", where=where, next_step=step)


def _misspelt(text: str) -> SpecificationError | None:
    if not (wrong := misspelt(text)):
        return None
    word, likely, at = wrong
    step = f"did you mean {likely}?"
    return SpecificationError(f"this is not SQL: `{word}`", where=_place(text, at), next_step=step)


def _place(text: str, at: int) -> str:
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}:{at - before.rfind(chr(10))}"


def _blank(text: str) -> str:
    """Return a text's line ends, and spaces for all else."""
    return re.sub(r"[^\n]", " ", text)


def _parsed(text: str) -> list[exp.Expr | None]:
    """Parse without the parser's own warnings: what it warns of is refused with a place and a reason."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        return list(sqlglot.parse(text, dialect=ViewSql))
    except _CRASHES:
        raise _crashed(text) from None
    finally:
        logger.disabled = before


def _crashed(text: str) -> ParseError:
    """Return what is wrong with a text on which the parser itself fails, at the statement where it does."""
    start = 0
    tokens = sqlglot.tokenize(text, dialect=ViewSql)
    for end in [token.start for token in tokens if token.token_type is TokenType.SEMICOLON]:
        try:
            sqlglot.parse(text[start:end], dialect=ViewSql)
            start = end + 1
        except _CRASHES:
            break
    first = next(token for token in tokens if token.start >= start)
    what = "a function of this statement has not the arguments that it takes"
    return ParseError.new(what, description=what, line=first.line, col=first.col, highlight=first.text)
