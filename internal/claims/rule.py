"""What the rules share.

A rule is a generator of (whether it is true, why it is false) for the assertions it finds in a sentence.
"""

import functools
import re

from prose import CODE, FILL, MARK, VALUE

RULES = {}


def rule(function):
    RULES[function.__name__.replace("_", "-")] = function
    return function


UNSAID = re.compile(r"\b(?:would|could|might|should have|if there|imagine|instead of|rather than|as if|as though|like|"
                    r"unlike|not|never|no|without|nobody|hardly|had (?:I|you)|were there|cannot|need not|nothing|no "
                    r"one)\b"
                    r"(?!\s+(?:only|just|surprisingly|doubt|idea|matter)\b)|n't\b", re.I)


def clause(sentence, at):
    """What stands before a place in its clause."""
    return re.split(r"[;:,()]| [-–—] |\b(?:but|because|so that|although|since)\b", sentence[:at])[-1]


def said(sentence, match):
    """Whether a match is asserted: not denied, supposed or compared."""
    return not UNSAID.search(clause(sentence, match.start()))


def finder(*patterns):
    """A function that finds the places of a sentence where one of the patterns asserts something."""
    compiled = [re.compile(p, re.I) for p in patterns]

    @functools.lru_cache(maxsize=None)  # answers share most of their sentences
    def find(sentence, guard=True):
        return [m for pattern in compiled for m in pattern.finditer(sentence) if not guard or said(sentence, m)]
    return find


LETTING = rf"(?:(?P<f>{CODE}) (?:then |\w+ly |always |never fails to |is what |that )?)?"


def relation(*patterns):
    return finder(*(p.replace("_X", rf"{FILL}(?P<x>{VALUE})").replace("_C", rf"{FILL}(?P<x>{CODE})")
                    .replace("_Y", rf"{FILL}(?P<y>{VALUE})").replace("_F", LETTING) for p in patterns))


def about(row, match):
    """The values in a match, by group, and what its subject in backticks calls itself."""
    return {key: row.value(text) if MARK.fullmatch(text) or key in "xy" else text
            for key, text in match.groupdict().items() if text}
