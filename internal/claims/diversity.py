"""How often answers repeat themselves and each other."""

import collections
import re

from prose import CODE


def diversity(rows):
    """Lines on how often the answers repeat themselves and each other."""
    first, sentences, grams, remarked = set(), collections.Counter(), collections.Counter(), 0
    for row in rows:
        shown, named_in = [], collections.Counter()
        for sentence, row.hidden in row.sentences:
            shown.append(row.show(sentence))
            named_in.update({row.value(m) for m in re.findall(CODE, sentence)})
        first.update(shown[:1])
        sentences.update(set(shown))
        mine = set()
        for segment in row.segments:
            words = [w for w in (w.strip(".,;:!?\"'()`").lower() for w in segment.split()) if w]
            mine.update(tuple(words[i:i + 8]) for i in range(len(words) - 7))
        grams.update(mine)
        remarked += any(n > 1 for n in named_in.values())

    def share(counter):
        text, n = counter.most_common(1)[0] if counter else ("", 0)
        return f"{n} rows, {100 * n / max(1, len(rows)):.2f}%: {text if isinstance(text, str) else ' '.join(text)}"
    yield f"rows: {len(rows)}"
    yield f"distinct first sentences: {len(first)}"
    yield f"most frequent sentence: {share(sentences)}"
    yield f"most frequent 8-gram: {share(grams)}"
    yield f"rows that remark on one name in more than one sentence: {remarked}"
