"""The text that the decoder of this example learns, and the tokens it is made of.

In: nothing, the text is made here: sums and differences in words, a line each. Out: lines, and tokens by byte
pair encoding. `python text.py FILE` writes the tokens as tables in C, for `generate.c`.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
)
NUMBERS = [*SMALL.split(), "seventeen", "eighteen", "nineteen", "twenty"]
MERGES = 64  # pairs of tokens that became a token

Pair = tuple[int, int]


def lines() -> list[str]:
    """All that there is to know: `two and three is five.` and `five less three is two.`"""
    last = len(NUMBERS)
    sums = [(a, "and", b, a + b) for a in range(last) for b in range(last - a)]
    differences = [(a, "less", b, a - b) for a in range(last) for b in range(a + 1)]
    return [f"{NUMBERS[a]} {word} {NUMBERS[b]} is {NUMBERS[c]}.\n" for a, word, b, c in sums + differences]


def joined(tokens: list[int], pair: Pair, token: int) -> list[int]:
    """The tokens with every occurrence of the pair, from the left, made one token."""
    result: list[int] = []
    for each in tokens:
        if result and (result[-1], each) == pair:
            result[-1] = token
        else:
            result.append(each)
    return result


@dataclass(frozen=True)
class Vocabulary:
    """The bytes that occur, each a token, and the pairs that are one, the first joined first."""

    letters: bytes
    merges: tuple[Pair, ...]

    def __len__(self) -> int:
        return len(self.letters) + len(self.merges)

    def encode(self, text: str) -> list[int]:
        """Join the pairs that became tokens first before others."""
        tokens = [self.letters.index(byte) for byte in text.encode()]
        for token, pair in enumerate(self.merges, len(self.letters)):
            tokens = joined(tokens, pair, token)
        return tokens

    def spelt(self) -> list[bytes]:
        """The bytes that each token stands for."""
        found = [bytes((byte,)) for byte in self.letters]
        for a, b in self.merges:
            found.append(found[a] + found[b])
        return found


def vocabulary() -> Vocabulary:
    """Byte pair encoding: again and again, the most frequent pair within a word becomes a token."""
    text = lines()
    letters = bytes(sorted({byte for line in text for byte in line.encode()}))
    # A token does not reach over the end of a word, to which the space before it belongs.
    counts = Counter(word for line in text for word in line.replace(" ", "\0 ").split("\0"))
    words = {word: [letters.index(byte) for byte in word.encode()] for word in counts}
    merges: list[Pair] = []
    for token in range(len(letters), len(letters) + MERGES):
        pairs: Counter[Pair] = Counter()
        for word, tokens in words.items():
            for pair in pairwise(tokens):
                pairs[pair] += counts[word]
        merges.append(max(pairs, key=lambda pair: (pairs[pair], pair)))
        words = {word: joined(tokens, merges[-1], token) for word, tokens in words.items()}
    return Vocabulary(letters, tuple(merges))


def header(v: Vocabulary) -> str:
    """The tables that `generate.c` reads and writes text by."""
    of_byte = [v.letters.find(byte) for byte in range(256)]
    spelt = [token.decode().replace("\n", "\\n") for token in v.spelt()]
    merges = ", ".join(f"{{{a}, {b}}}" for a, b in v.merges)
    texts = ", ".join(f'"{text}"' for text in spelt)
    return (
        f"/* Written by text.py: {len(v.letters)} bytes and {len(v.merges)} pairs. */\n"
        f"enum {{ LETTERS = {len(v.letters)}, MERGES = {len(v.merges)}, TOKENS = {len(v)} }};\n"
        f"static const short token_of_byte[256] = {{{', '.join(map(str, of_byte))}}};\n"
        f"static const unsigned char merges[MERGES][2] = {{{merges}}};\n"
        f"static const char *const text_of_token[TOKENS] = {{{texts}}};\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(header(vocabulary()))
