# SPDX-License-Identifier: Apache-2.0
"""The places of a C source at which mutate can change something, found by a lexer.

mutants_of(file, text) lists them. Only bodies of functions and values of variables are changed: no
comment, string, directive or declaration of a type, no assertion, and nothing inside a call that
makes text for people. A mutant is named by what it changes (file, function, operator, original,
ordinal within the function), not by its line, so that it is found again after an edit elsewhere.
"""

import dataclasses
import hashlib
import re

TOKEN = re.compile(r"""
    (?P<space>\s+)
  | (?P<comment>/\*.*?\*/|//[^\n]*)
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>[uUL]?'(?:\\.|[^'\\\n])*')
  | (?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.S | re.X)
DIRECTIVE = re.compile(r'#(?:\\\n|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[^\n])*', re.S)

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGICAL = {"&&": "||", "||": "&&"}
BOOLEANS = {"true": "false", "false": "true"}
EMPTY = ("0", "NULL", "false")
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)")
FACTORS = {60, 1000, 3600, 60_000, 86_400, 1_000_000, 1_000_000_000}
UNIT_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*_(?:NS|US|MS|S)")
UNIT_VARIABLE = re.compile(r"[a-z]\w*_(?:ns|us|ms|s)")
# What these calls are given is for developers or for people who read text.
SKIPPED_CALL = re.compile(r"assert|static_assert|_Static_assert|sizeof|__attribute__|log_\w+|LOG_\w+|"
                          r"fail|fail_next|fail_prefix")
STATEMENT_WORDS = {"return", "else", "case", "goto", "if", "for", "while", "do", "switch", "break",
                   "continue", "default"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
OPERATORS = ("comparison", "constant", "unit", "reset", "error", "logical")


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int

    @property
    def end(self):
        return self.start + len(self.text)


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    function: str
    operator: str
    original: str
    to: str
    ordinal: int  # of the same change in the same function, from 1
    start: int
    end: int
    line: int

    @property
    def id(self):
        what = "\0".join((self.operator, self.original, self.to, str(self.ordinal)))
        return f"{self.file}:{self.function}:{hashlib.sha256(what.encode()).hexdigest()[:8]}"

    @property
    def room(self):
        parts = self.file.split("/")
        return parts[1] if len(parts) > 2 else "src"

    def applied(self, text):
        return text[:self.start] + self.to + text[self.end:]


def tokens_of(text):
    """What the compiler reads after the preprocessor's lines are taken out."""
    found, at, line_is_new = [], 0, True
    while at < len(text):
        if line_is_new and text[at] == "#":
            at = DIRECTIVE.match(text, at).end()
            continue
        match = TOKEN.match(text, at)
        at = match.end()
        if match.lastgroup == "space":
            line_is_new = line_is_new or "\n" in match.group()
        elif match.lastgroup != "comment":
            found.append(Token(match.lastgroup, match.group(), match.start()))
            line_is_new = False
    return found


def pairs_of(tokens):
    """{index of a bracket: index of the one that belongs to it}, both ways."""
    open_ones, pairs = [], {}
    for at, token in enumerate(tokens):
        if token.kind != "sign":
            continue
        if token.text in CLOSING:
            open_ones.append(at)
        elif token.text in CLOSING.values() and open_ones:
            pairs[at] = open_ones.pop()
            pairs[pairs[at]] = at
    return pairs


@dataclasses.dataclass
class Scope:
    """A body of a function, or the value of a variable outside of functions."""
    name: str
    first: int
    last: int
    returns_error: bool = False


class Source:
    def __init__(self, file, text):
        self.file, self.text = file, text
        self.tokens = tokens_of(text)
        self.pairs = pairs_of(self.tokens)
        self.skipped = self.find_skipped()

    def word(self, at):
        """The text of a token; "" outside of the file."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def kind(self, at):
        return self.tokens[at].kind if 0 <= at < len(self.tokens) else ""

    def find_skipped(self):
        skipped = set()
        for at, token in enumerate(self.tokens):
            if token.kind == "word" and SKIPPED_CALL.fullmatch(token.text) and self.word(at + 1) == "(":
                skipped.update(range(at + 1, self.pairs.get(at + 1, at) + 1))
        return skipped

    # ---- scopes

    def scopes(self):
        at = start = 0
        while at < len(self.tokens):
            here = self.word(at)
            if here == "=":
                last = self.end_of_value(at)
                yield Scope(self.name_before(start, at), at + 1, last)
                at = start = last + 1
            elif here == "{":
                last = self.pairs.get(at, at)
                function = self.function_in(start, at)
                if function:
                    words = [self.word(k) for k in range(start, at)]
                    yield Scope(function, at, last, "defib_err" in words[:words.index(function)])
                    start = last + 1
                at = last + 1  # after the body of a type, the declaration goes on
            else:
                at = self.pairs.get(at, at) + 1 if here == "(" else at + 1
                if here == ";":
                    start = at

    def end_of_value(self, at):
        while at < len(self.tokens) and self.word(at) != ";":
            at = self.pairs.get(at, at) + 1 if self.word(at) in CLOSING else at + 1
        return at

    def name_before(self, start, at):
        at -= 1
        while at > start and self.word(at) == "]":
            at = self.pairs[at] - 1
        return self.word(at)

    def function_in(self, start, at):
        """The name, if what precedes the brace is the head of a function."""
        if self.word(at - 1) != ")":
            return None
        while start < at:
            word = self.word(start)
            if (self.kind(start) == "word" and self.word(start + 1) == "(" and not word.isupper()
                    and word != "__attribute__"):
                return word
            start = self.pairs.get(start, start) + 1 if word in CLOSING else start + 1
        return None

    # ---- changes: (operator, first token, last token, replacement)

    def changes(self, scope):
        for at in range(scope.first, scope.last + 1):
            if at in self.skipped:
                continue
            kind, text = self.kind(at), self.word(at)
            if kind == "sign":
                if text in COMPARISONS:
                    yield "comparison", at, at, COMPARISONS[text]
                if text in LOGICAL:
                    yield "logical", at, at, LOGICAL[text]
                if text == "!":
                    yield "logical", at, at, ""
                if text in "*/":
                    yield from self.factor(at)
                if text == "=":
                    yield from self.reset(at)
            elif kind == "number":
                yield from self.number(at)
            elif text in BOOLEANS:
                yield "constant", at, at, BOOLEANS[text]
            elif UNIT_CONSTANT.fullmatch(text) and self.is_in_expression(at):
                yield "unit", at, at, f"({text} * 1000)"
            elif text == "return" and scope.returns_error:
                yield from self.error_return(at)
            elif text == "if":
                yield from self.error_check(at)

    def value_at(self, at):
        """The integer that starts here, INT64_C(1000) included, and its last token."""
        if self.word(at).startswith("INT64_C") and self.word(at + 1) == "(":
            return self.value_at(at + 2)[0], at + 3
        match = INTEGER.fullmatch(self.word(at))
        return int(match[1], 0 if match[1][:2] in ("0x", "0X") else 10) if match else None, at

    def factor(self, at):
        """A conversion between units: turned round, or dropped."""
        value, last = self.value_at(at + 1)
        if value not in FACTORS or not self.is_operand(at - 1):
            return
        yield "unit", at, at, "/" if self.word(at) == "*" else "*"
        yield "unit", at, last, ""

    def is_operand(self, at):
        return (self.kind(at) in ("word", "number") and self.word(at) not in STATEMENT_WORDS
                or self.word(at) in (")", "]"))

    def is_in_expression(self, at):
        return self.word(at + 1) != "(" and self.word(at - 1) not in ("case", "[", "==", "!=") and \
            self.word(at + 1) not in ("==", "!=")

    def number(self, at):
        value = self.value_at(at)[0]
        if value is None:
            return
        before = at - 2 if self.word(at - 2) == "INT64_C" else at
        if value in FACTORS and self.word(before - 1) in ("*", "/"):
            return  # a unit
        if value == 0 and self.word(at - 1) == "{" and self.word(at + 1) == "}":
            return  # the empty value of a struct
        if self.word(at - 1) == "[" and self.is_declaration(self.statement_of(at)):
            return  # the size of an array
        if value >= 10 and self.word(at - 1) == "=" and UNIT_VARIABLE.fullmatch(self.word(at - 2)):
            yield "unit", at, at, f"({self.word(at)} * 1000)"
        negative = self.word(at - 1) == "-" and not self.is_operand(at - 2)
        suffix = INTEGER.fullmatch(self.word(at))[2]
        yield "constant", at, at, f"{value - 1 if negative and value else value + 1}{suffix}"

    def statement_of(self, at):
        while at > 0 and self.word(at - 1) not in (";", "{", "}"):
            at -= 1
        return at

    def is_declaration(self, at):
        if self.kind(at) != "word" or self.word(at) in STATEMENT_WORDS:
            return False
        at += 1
        while self.word(at) == "*":
            at += 1
        return self.kind(at) == "word"

    def reset(self, at):
        """x = 0; removed."""
        last = at + 1
        if self.word(last) == "(" and self.word(self.pairs[last] + 1) == "{":
            last = self.pairs[self.pairs[last] + 1]
            if self.word(last - 1) != "{" and self.word(last - 2) + self.word(last - 1) != "{0":
                return
        elif self.word(last) not in EMPTY:
            return
        first = self.target_before(at)
        if first is not None and self.word(last + 1) == ";":
            yield "reset", first, last, ""

    def target_before(self, at):
        """Where the statement starts that assigns here; None if it declares or is part of another."""
        first = at
        while True:
            here = self.word(first - 1)
            if here in (";", "{", "}", ":", "else", "do"):
                return first if first < at and not self.is_declaration(first) else None
            if here == ")":
                head = self.pairs[first - 1]
                if self.word(head - 1) in ("if", "while", "for", "switch"):
                    return first if not self.is_declaration(first) else None
                first = head
            elif here == "]":
                first = self.pairs[first - 1]
            elif self.kind(first - 1) == "word" or here in (".", "->", "*", "="):
                first -= 1
            else:
                return None

    def error_return(self, at):
        """An error that is returned becomes a success."""
        last = at + 1
        if self.word(last) == "fail" and self.word(last + 1) == "(":
            last = self.pairs[last + 1]
        elif not re.fullmatch(r"\w*err|DEFIB_(?!OK\b)\w+", self.word(last)):
            return
        if self.word(last + 1) == ";":
            yield "error", at + 1, last, "DEFIB_OK"

    def error_check(self, at):
        """if (err) goto out; is dropped, and if (!err) is always true."""
        words = [self.word(at + k) for k in range(8)]
        error = re.compile(r"\w*err")
        if (error.fullmatch(words[2]) and words[3] == ")" and words[6] == ";" and words[7] != "else"
                and (words[4] == "goto" or words[4:6] == ["return", words[2]])):
            yield "error", at, at + 5, ""
        if words[2] == "!" and error.fullmatch(words[3]) and words[4] == ")":
            yield "error", at + 2, at + 3, "true"

    def mutants(self):
        seen = {}
        for scope in self.scopes():
            for operator, first, last, to in self.changes(scope):
                start, end = self.tokens[first].start, self.tokens[last].end
                original = " ".join(token.text for token in self.tokens[first:last + 1])
                key = (scope.name, operator, original, to)
                seen[key] = seen.get(key, 0) + 1
                yield Mutant(self.file, scope.name, operator, original, to, seen[key], start, end,
                             self.text.count("\n", 0, start) + 1)


def mutants_of(file, text):
    return list(Source(file, text).mutants())
