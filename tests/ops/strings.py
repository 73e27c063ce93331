"""Rows of operators that look into strings."""

from tests.ops.rows import Array, Row, texts

WORDS = texts("", "a", "ab", "Ab c", " x ", 'quote " \\ ??/ %s', "Größe", "日本語", "\t\n", "0", "*/", "a")
X = WORDS.reshape(3, 4)
EMPTY = texts(shape=(0, 3))

CONCAT = [
    Row("StringConcat", [X, texts(*reversed(list(WORDS))).reshape(3, 4)], opset=20),
    Row("StringConcat", [X, texts("-", "é", "", "日").reshape(1, 4)], opset=20),
    Row("StringConcat", [texts("a", "b").reshape(2, 1), texts("c", "d", "e")], opset=20),
    Row("StringConcat", [X, texts("!", shape=())], constant=[1], opset=20, note="constant"),
    Row("StringConcat", [texts("?", shape=()), X], constant=[0], opset=20, note="constant"),
    Row("StringConcat", [EMPTY, EMPTY], opset=20),
    Row("StringConcat", [texts("x" * 60), texts("abc")], opset=20, note="full"),
    Row("StringConcat", [texts("x" * 63), texts("")], opset=20, note="full"),
]

MAILS = texts("www.google.com", "a@yahoo.com", "x@gmail.com ", "", "é@gmail.com", "a@gmail.com\n")
PATTERNS = (
    *(r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)", r"(?i)GR[öo]ßE", r".*", r"(?s).*", r"", r"[^a-c]+"),
    *(
        r"\p{Lu}.*",
        r"(?m)^$\s.*",
        r"\bAb\b c?",
        r"a|ab|\x{65e5}.{2}",
        r"[[:alnum:]*/?\"\\\\%\t ]*",
        r"\S+@\S+",
    ),
)
REGEX = [
    *(Row("RegexFullMatch", [a], {"pattern": p}, opset=20) for p in PATTERNS for a in (X, MAILS)),
    Row("RegexFullMatch", [texts("x" * 63, "x" * 62)], {"pattern": "x{63}"}, opset=20),
    Row("RegexFullMatch", [EMPTY], {"pattern": "a"}, opset=20),
    Row("RegexFullMatch", [texts("(()", shape=())], {"pattern": r"\Q(()\E"}, opset=20),
]

DAYS = texts("monday", "Tuesday", "wednesday", "THURSDAY", "", "monday")
LETTERS = texts(
    *(
        "ÀÉÎÕÜÇÑØÅÆ ß",
        "àéîõüçñøåæ ÿ",
        "ŁĄŻźŠčĞşŐű",
        "ΑΒΓΔΩάέώς",
        "АБВЯёйъЖ",
        "Ḁẞ ﬀ",
        "日本 Aa1",
        "😀Zz",
        "ǅǆ K",
    ),
)


def upper(c: str) -> str:
    """The simple mapping: one character for one."""
    return c.upper() if len(c.upper()) == 1 else c


def norm(x: Array, wanted: list[str], **attributes: object) -> Row:
    """The oracles are no help: onnxruntime needs a locale, the reference strips accents and spaces."""
    return Row(
        "StringNormalizer",
        [x],
        attributes,
        opset=10,
        oracle=[texts(*wanted).reshape((1,) * (x.ndim - 1) + (-1,))],
    )


MONDAY = {"stopwords": ["monday"], "is_case_sensitive": 1, "case_change_action": "UPPER"}
NORMALIZE = [
    norm(DAYS, list(DAYS)),
    norm(DAYS, list(DAYS[1:5]), stopwords=["monday"], is_case_sensitive=1),
    norm(DAYS, ["Tuesday", "wednesday", ""], stopwords=["MONDAY", "thursday"], is_case_sensitive=0),
    norm(
        DAYS,
        [d.upper() for d in DAYS],
        stopwords=["MONDAY", "thursday"],
        is_case_sensitive=1,
        case_change_action="UPPER",
    ),
    norm(
        DAYS,
        [d.upper() for d in DAYS[1:5]],
        stopwords=["MONDAY", "x" * 70],
        is_case_sensitive=0,
        case_change_action="UPPER",
    ),
    norm(DAYS.reshape(1, 6), ["TUESDAY", "WEDNESDAY", "THURSDAY", ""], **MONDAY),
    norm(texts("a", "A"), [""], stopwords=["a"], is_case_sensitive=0),
    norm(texts("a", "a").reshape(1, 2), [""], stopwords=["a"], is_case_sensitive=0),
    norm(texts(), [""]),
    norm(LETTERS, [s.lower() for s in LETTERS], case_change_action="LOWER"),
    norm(LETTERS, ["".join(map(upper, s)) for s in LETTERS], case_change_action="UPPER"),
    norm(texts("éa", "Éb"), ["Éb"], stopwords=["ÉA"], is_case_sensitive=0),
]
SENTENCES = texts("  a b  c ", "", " ", "ab", "\ta\nb\u3000c\u00a0d\u2003", "é,日 ,,x", ",", "a,b,")
SPLIT = [
    Row("StringSplit", [a], attributes, opset=20, outputs=2, oracle="reference")
    for a in (SENTENCES, SENTENCES.reshape(2, 4))
    for attributes in (
        *({}, {"delimiter": ""}, {"delimiter": ","}, {"delimiter": ",,"}, {"delimiter": "日 "}),
        *({"maxsplit": 0}, {"maxsplit": 1}, {"maxsplit": 2}),
        *({"delimiter": ",", "maxsplit": n} for n in (0, 1, 2)),
    )
]


def split(x: Array, oracle: object = "reference", outputs: object = 2, **attributes: object) -> Row:
    return Row("StringSplit", [x], attributes, opset=20, outputs=outputs, oracle=oracle)


SPLIT += [
    split(texts("aaaaa", "aa", "baab"), delimiter="aa"),
    split(texts("x-y", shape=()), "ort", delimiter="-"),
    split(texts("," * 63, "a" * 63), delimiter=","),
    split(texts("a " * 31 + "a")),
    split(texts("a,b"), outputs=[True, False], delimiter=","),
    split(EMPTY),
]

ROWS = [*CONCAT, *REGEX, *NORMALIZE, *SPLIT]
