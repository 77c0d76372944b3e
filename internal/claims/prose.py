"""A row of a dataset: its sentences, with code and quotations hidden, its code and its question."""

import ast
import json
import re

from code import Code, bare, joined, tokens
from things import DATA, SYNONYMS, THINGS

NUMBERS = {word: n for n, word in enumerate(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty".split())}
NUMBER = r"(?:\d+|" + "|".join(NUMBERS) + r"|a single|a couple of|half a dozen|a dozen)"
CODE = r"\[\[c\d+\]\]"  # what hide makes of text in backticks
QUOTE = r"\[\[q\d+\]\]"  # ... of text in quotation marks
VALUE = rf"(?:{CODE}|{QUOTE}|-?\d+(?:\.\d+)?|True|False|None|" + "|".join(NUMBERS) + ")"
# Words between a verb and its object that do not change what is asserted.
FILL = (r"(?:(?:the|a|an|its|your|this|that|these|those|each|every|all|of|only|just|simply|merely|exactly|plain|both|"
        r"in|"
        r"from|\w+ly|values?|results?|variables?|names?|numbers?|items?|elements?|words?|letters?|characters?|keys?|"
        r"strings?|lists?|texts?|expressions?|functions?|methods?|dictionary|tuple|contents|modules?|sum|good|old|new|"
        r"whole|entire|little|trusty|exceptions?|errors?) )*?")


FENCE = re.compile(r"^(`{3,})[ \t]*(\w*)[^\n]*\n(.*?)(?:^\1[ \t]*$|\Z)", re.M | re.S)
MARK = re.compile(r"\[\[([cqt])(\d+)\]\]")


class Row:
    """A row: what the answer says, its code, and the question."""

    def __init__(self, instruction, given, answer):
        self.instruction, self.given = instruction, given
        self.question = instruction + "\n" + given
        self.code = Code("\n".join(m.group(3) for m in FENCE.finditer(answer) if m.group(2) in ("", "python", "py")))
        self.segments = [part for part in FENCE.sub("\0", answer).split("\0") if part.strip()]
        self.hidden = []
        self.sentences = [s for part in self.segments for paragraph in re.split(r"\n\s*\n", part)
                          for s in self.split(" ".join(paragraph.split()))]
        self.data = Code(given) if given else Code("")
        self.asked = tokens(self.question)
        self.asked_stream = joined(self.asked)

    def hide(self, kind, text):
        self.hidden.append(text)
        return f"[[{kind}{len(self.hidden) - 1}]]"

    def split(self, paragraph):
        """The sentences of a paragraph; what is code, quoted or the question's own is hidden from the rules."""
        text = re.sub(r"(`+)(.+?)\1", lambda m: self.hide("c", m.group(2).strip()), paragraph)
        text = re.sub(r'"([^"]*)"|“([^”]*)”', lambda m: self.hide("q", m.group(1) or m.group(2) or ""), text)
        text = self.hide_task(text)
        return [self.own(s) for s in re.split(r"(?<=[.!?:])['\")]*\s+(?=[A-Z\[(])", text) if s.strip()]

    def own(self, sentence):
        """A sentence, with what is hidden in it numbered from 0, so that rows that say the same share a search."""
        hidden = []

        def again(m):
            hidden.append(self.show(self.hidden[int(m.group(2))]))
            return f"[[{m.group(1)}{len(hidden) - 1}]]"
        return MARK.sub(again, sentence), hidden

    def hide_task(self, text):
        """The text with each run of four or more words of the question hidden."""
        def plain(text):
            return [w for w in (re.sub(r"^\W+|\W+$", "", word).lower() for word in text.split()) if w]
        asked = plain(self.instruction)
        words, made, i = text.split(), [], 0
        plains = [plain(self.show(word)) for word in words]
        while i < len(words):
            longest = 0
            for start in [k for k, word in enumerate(asked) if plains[i][:1] == [word]]:
                at, j = start, i
                while j < len(words) and asked[at:at + len(plains[j])] == plains[j]:
                    at, j = at + len(plains[j]), j + 1
                if at - start >= 4:
                    longest = max(longest, j - i)
            if longest:
                whole = " ".join(words[i:i + longest])
                end = re.search(r"(?<!\])[.,;:!?]*$", whole).group() if not whole.endswith("]]") else ""
                made.append(self.hide("t", whole[:len(whole) - len(end)]) + end)
                i += longest
            else:
                made.append(words[i])
                i += 1
        return " ".join(made)

    def show(self, text):
        """The text with nothing hidden."""
        def back(m):
            inner = self.hidden[int(m.group(2))]
            around = {"c": "`", "q": '"', "t": ""}[m.group(1)]
            return around + self.show(inner) + around
        return MARK.sub(back, text)

    def value(self, text):
        """What an object in a sentence is, as Python text."""
        match = MARK.fullmatch(text)
        if match:
            inner = self.hidden[int(match.group(2))]
            return inner if match.group(1) == "c" else json.dumps(inner, ensure_ascii=False)
        return str(NUMBERS.get(text.lower(), text))

    def in_question(self, text):
        return bare(text) in self.asked_stream or text.lower() in self.question.lower()

    def asks_for(self, name):
        """Whether the question has the word for a thing, or brings the thing as its input."""
        words = SYNONYMS.get(name) or next(pattern.pattern for n, pattern, _, _ in THINGS if n == name)
        return bool(re.search(rf"\b(?:{words})\b", self.question, re.I)) or self.brings(name)

    def brings(self, name):
        """Whether the input has a literal of that type."""
        if not self.given or name not in DATA:
            return False
        types = {"list": ast.List, "dictionary": ast.Dict, "tuple": ast.Tuple, "set": ast.Set}
        return name == "string" and (not self.data.tree or bool(self.data.strings)) or \
            name in types and bool(self.data.all(types[name]))

def number(text):
    words = {"a single": 1, "a couple of": 2, "half a dozen": 6, "a dozen": 12}
    text = text.lower()
    return int(text) if text.isdigit() else words[text] if text in words else NUMBERS[text]
