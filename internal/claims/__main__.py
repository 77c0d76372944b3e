"""Find false statements that answers make about their own code and about the question.

    python3 internal/claims FILE.json [--field output_passive_aggressive] [--diversity]

FILE holds a list of rows {"instruction", "input", FIELD}; an answer is Markdown prose with Python in fences. Prints a
line per false statement (row number from 0, rule, sentence, why), then how many statements each rule checked, so that a
rule that never applies is visible. The exit status is 1 if a statement is false, 2 if FILE cannot be read.

The rules are of English and Python, not of any set of phrases: a sentence in which no rule recognizes an assertion is
not judged. An assertion is about the code ("There is a loop in it", "The loop ...", "It returns `x`") or about the
question ("your list", "You asked for 10"); "my list of grievances" and "much like a loop" are neither. Four or more
words of the question in a row are the question's own, and not judged either.
"""

import argparse
import collections
import json
import sys

import behavior  # noqa: F401: each of the three adds its rules
import contents  # noqa: F401
import question  # noqa: F401
from diversity import diversity
from prose import Row
from rule import RULES


def check(row):
    """(rule, sentence, whether it is true, why not) of each statement in a row."""
    for sentence, row.hidden in row.sentences:
        for label, find in RULES.items():
            for ok, why in find(row, sentence):
                yield label, row.show(sentence), bool(ok), why


def own(row, answer):
    """Returns the answer without the original's words, which are not about the row's code if it has none."""
    original = row.get("output_original") or ""
    return answer if "```" in answer else answer.replace(original, "")


def main():
    parser = argparse.ArgumentParser(description="Find false statements that answers make about code and question.")
    parser.add_argument("file")
    parser.add_argument("--field", default="output_passive_aggressive", help="the column of the answers")
    parser.add_argument("--diversity", action="store_true", help="also measure how much the answers repeat")
    options = parser.parse_args()
    try:
        with open(options.file, encoding="utf-8") as file:
            rows = [Row(r["instruction"], r.get("input") or "", own(r, r[options.field])) for r in json.load(file)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{options.file}: {type(error).__name__}: {error}: must be JSON, a list of rows with instruction, "
              f"input and "
              f"{options.field}", file=sys.stderr)
        return 2
    checked, false = collections.Counter(), collections.Counter()
    for i, row in enumerate(rows):
        for label, sentence, ok, why in check(row):
            checked[label] += 1
            if not ok:
                false[label] += 1
                print(f"{i}\t{label}\t{sentence}\t{why}")
    print(f"rule: statements checked, false ({len(rows)} rows)")
    for label in RULES:
        print(f"  {label}: {checked[label]}, {false[label]}")
    print(f"  all: {sum(checked.values())}, {sum(false.values())}")
    if options.diversity:
        for line in diversity(rows):
            print("  " + line)
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
