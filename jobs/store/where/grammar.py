"""The parser of `--where`: a subset of SQL's expressions, read into a tree. Operators, weakest binding first:

or   and   not   = <> < <= > >=   is, in, between, like, has   + -   * / % ||   -x   ( ... )
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

from jobs.errors import SpecError
from jobs.store.where.tree import (
    WORDS,
    All,
    Among,
    Any,
    Call,
    Case,
    Comparison,
    Has,
    Is,
    Like,
    Name,
    Negative,
    Node,
    Not,
    Number,
    Operation,
    Text,
    Truth,
    parts_of,
    spell,
)

MAX_DEPTH = 24  # levels of parentheses, calls and signs; each costs frames of Python's stack
MAX_CHAIN = 24  # of + or * without parentheses: each is a level of the tree
MAX_LEVELS = 26  # of the tree: SQLAlchemy takes up to 25 frames of Python's stack for one, of about a thousand
FUNCTIONS = {  # with the least and the greatest number of values in their parentheses
    "abs": (1, 1),
    "coalesce": (1, 20),
    "contains": (2, 2),
    "json_extract": (2, 2),
    "length": (1, 1),
    "lower": (1, 1),
    "nullif": (2, 2),
    "number": (1, 1),
    "round": (1, 2),
    "substr": (2, 3),
    "trim": (1, 2),
    "upper": (1, 1),
}

_SAME = {"==": "=", "!=": "<>"}
_TRUTHS = {"null": None, "true": True, "false": False}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def read_condition(source: str) -> Node:
    """Parse `perplexity < 50 and meta.lang = 'de'`. Raises SpecError for anything but one expression."""
    parser = _Parser(source)
    if parser.at_end:
        raise SpecError("--where is empty")
    tree = parser.expression()
    if not parser.at_end:
        raise parser.unexpected()
    if _levels(tree) > MAX_LEVELS:
        raise SpecError(f"--where is nested more than {MAX_LEVELS} levels deep")
    return tree


def _levels(tree: Node) -> int:
    """How deep a tree is. Not recursive, since a tree may be deeper than Python's stack."""
    levels, below = 0, [tree]
    while below:
        levels += 1
        below = [part for node in below for part in parts_of(node)]
    return levels


def read_name(source: str) -> tuple[str, ...]:
    """The path of the field that `source` names: `lang`, `meta.lang`, `"my field"`, `fields.text`. A text that is none
    of these is a name as a whole."""
    try:
        tree = read_condition(source)
    except SpecError:
        return (source,)
    return tree.path if isinstance(tree, Name) else (source,)


class _Parser:
    """A recursive descent parser: a method for each level of binding."""

    def __init__(self, source: str) -> None:
        self._tokens = split_tokens(source)
        self._at = 0
        self._depth = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def unexpected(self) -> SpecError:
        if sum(_balance(token) for token in self._tokens):
            return SpecError("the parentheses of --where do not match")
        if self.at_end:
            return SpecError("--where ends in the middle of a condition")
        text = self._next.text
        hint = f'; write a field of this name in double quotes: "{text}"' if self._next.word in WORDS else ""
        return SpecError(f"--where does not expect {text[:40]!r} after {self._before()!r}{hint}")

    def expression(self) -> Node:
        with self._deeper():
            terms = [self._conjunction()]
            while self._takes("or"):
                terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else Any(tuple(terms))

    def _conjunction(self) -> Node:
        terms = [self._negation()]
        while self._takes("and"):
            terms.append(self._negation())
        return terms[0] if len(terms) == 1 else All(tuple(terms))

    def _negation(self) -> Node:
        negations = 0
        while self._takes("not"):
            negations += 1
        tree = self._comparison()
        return Not(tree) if negations % 2 else (Not(Not(tree)) if negations else tree)

    def _comparison(self) -> Node:
        left = self._sum()
        sign = _SAME.get(self._next.sign, self._next.sign)
        if sign in _COMPARISONS:
            self._at += 1
            return Comparison(sign, left, self._sum())
        if self._takes("is"):
            negated = self._takes("not")
            return _negated(negated, Is(left, self._truth_value("is")))
        negated = self._takes("not")
        if self._takes("in"):
            return _negated(negated, Among(left, self._list()))
        if self._takes("between"):
            low = self._sum()
            self._demand("and")
            return _negated(negated, All((Comparison(">=", left, low), Comparison("<=", left, self._sum()))))
        if self._takes("like"):
            return _negated(negated, Like(left, self._pattern()))
        if self._takes("has"):  # not reserved: a field may have this name
            return _negated(negated, Has(left, self._word()))
        if negated:
            raise self.unexpected()
        return left

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._chain(("*", "/", "%", "||"), self._signed)

    def _chain(self, signs: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        tree, length = operand(), 0
        while self._next.sign in signs:
            length += 1
            if length > MAX_CHAIN:
                raise SpecError(f"--where joins more than {MAX_CHAIN} terms by {self._next.sign}")
            sign = self._take().text
            tree = Operation(sign, tree, operand())
        return tree

    def _signed(self) -> Node:
        if self._next.sign not in ("+", "-"):
            return self._primary()
        sign = self._take().text
        with self._deeper():
            operand = self._signed()
        if sign == "+":
            return operand
        if isinstance(operand, Number):
            return Number(-operand.value, f"-{operand.written}")
        return Negative(operand)

    def _primary(self) -> Node:
        token = self._next
        if token.kind == "text":
            self._at += 1
            return Text(token.text[1:-1].replace("''", "'"))
        if token.kind == "number":
            self._at += 1
            return _number(token.text)
        if token.sign == "(":
            self._at += 1
            tree = self.expression()
            self._demand(")")
            return tree
        if token.word in ("null", "true", "false"):
            return Truth(self._truth_value("a value"))
        if self._takes("case"):
            return self._choice()
        if token.word not in WORDS and token.kind in ("word", "quoted"):
            return self._call() if self._follows("(") and token.kind == "word" else self._name()
        raise self.unexpected()

    def _name(self) -> Name:
        is_quoted = self._next.kind == "quoted"
        path = [self._part()]
        while self._takes("."):
            path.append(self._part())
        if self._next.sign in ("->", "->>"):
            raise self._arrow(path)
        if path[0].lower() == "fields" and not is_quoted and len(path) > 1:
            return Name(tuple(path[1:]), is_field=True)
        return Name(tuple(path), is_quoted=is_quoted)

    def _part(self) -> str:
        token = self._next
        if token.kind not in ("word", "quoted"):
            raise self.unexpected()
        self._at += 1
        return token.text if token.kind == "word" else token.text[1:-1].replace('""', '"')

    def _arrow(self, path: list[str]) -> SpecError:
        """The error for `fields->>'kind'`, which says how to write it for both databases."""
        if path[0].lower() == "fields":
            del path[0]
        while self._next.sign in ("->", "->>"):
            self._at += 1
            if self._next.kind == "text":
                path.append(self._take().text[1:-1].replace("''", "'").removeprefix("$."))
        name = ".".join(map(spell, path)) or "its name"
        return SpecError(f"--where knows a field by its name: write {name}, without -> and ->>")

    def _call(self) -> Node:
        function = self._take().text.lower()
        if function not in FUNCTIONS:
            raise SpecError(f"--where does not know the function {function!r}; there are {', '.join(FUNCTIONS)}")
        return Call(function, self._list())

    def _list(self) -> tuple[Node, ...]:
        self._demand("(")
        members = [self.expression()]
        while self._takes(","):
            members.append(self.expression())
        self._demand(")")
        return tuple(members)

    def _choice(self) -> Node:
        operand = None if self._next.word == "when" else self.expression()
        cases: list[tuple[Node, Node]] = []
        while self._takes("when"):
            when = self.expression()
            self._demand("then")
            cases.append((when if operand is None else Comparison("=", operand, when), self.expression()))
        otherwise = self.expression() if self._takes("else") else Truth(None)
        self._demand("end")
        if not cases:
            raise SpecError("--where has a case without when")
        return Case(tuple(cases), otherwise)

    def _pattern(self) -> str:
        if self._next.kind != "text":
            raise SpecError(
                "--where: after like write a text in single quotes, with % for any text and _ for any character"
            )
        return self._take().text[1:-1].replace("''", "'")

    def _word(self) -> str:
        if self._next.kind != "text":
            raise SpecError("--where: after has write a flag in single quotes: flags has 'truncated'")
        return self._take().text[1:-1].replace("''", "'")

    def _truth_value(self, after: str) -> bool | None:
        if self._next.word not in _TRUTHS:
            raise SpecError(f"--where: after {after} write null, true or false")
        return _TRUTHS[self._take().word]

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SpecError(f"--where is nested more than {MAX_DEPTH} levels deep")
        yield
        self._depth -= 1

    @property
    def _next(self) -> "Token":
        return END if self.at_end else self._tokens[self._at]

    def _follows(self, sign: str) -> bool:
        return self._at + 1 < len(self._tokens) and self._tokens[self._at + 1].sign == sign

    def _take(self) -> "Token":
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, text: str) -> bool:
        """Consume the next token if it is this word or sign; returns whether it was."""
        if text not in (self._next.word, self._next.sign):
            return False
        self._at += 1
        return True

    def _demand(self, text: str) -> None:
        if not self._takes(text):
            raise self.unexpected()

    def _before(self) -> str:
        return " ".join(token.text for token in self._tokens[max(0, self._at - 3) : self._at])


def _balance(token: "Token") -> int:
    return {"(": 1, ")": -1}.get(token.sign, 0)


def _negated(negated: bool, tree: Node) -> Node:
    return Not(tree) if negated else tree


def _number(written: str) -> Number:
    value = Decimal(written)
    if len(written) > 100 or abs(value.adjusted()) > 300:
        raise SpecError(f"--where: {written[:20]} is too large, too small or too long for a database's numbers")
    return Number(value, written)


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<forbidden>--|/\*)
      | (?P<sign>->>|->|<>|!=|==|<=|>=|\|\||[-+*/%<>=(),.])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""

    @property
    def sign(self) -> str:
        return self.text if self.kind == "sign" else ""


END = Token("end", "")


def split_tokens(source: str) -> list[Token]:
    """The tokens of a condition. Raises SpecError for characters that no condition has."""
    found, at, source = [], 0, source.rstrip()
    if "\0" in source or any("\ud800" <= sign <= "\udfff" for sign in source):
        raise SpecError("--where holds bytes that are not UTF-8")
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None or match.lastgroup in (None, "forbidden"):
            raise SpecError(f"--where cannot hold {source[at:].lstrip()[:10]!r}; write texts in single quotes")
        found.append(Token(str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return found
