"""Record the ids of transformers' MarianTokenizer for a wide set of strings, for tests that run without transformers.

    python tests/golden/make_tokenizer_golden.py FOLDER

FOLDER has the tokenizer files of opus-mt-en-mg (Helsinki-NLP, Apache-2.0). Writes beside this script
`marian_tokenizer.json`: the strings of this script and their ids, nothing of the tokenizer itself.

Special tokens in a text (`</s>`, `<unk>`, `<pad>`) are read as plain text (`split_special_tokens`). Texts that begin
with `>>…<<` are left out, because transformers always reads that as a language label.
"""

import hashlib
import json
import platform
import random
import sys
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).with_name("marian_tokenizer.json")

SENTENCES = """\
The quick brown fox jumps over the lazy dog.
She sells seashells by the seashore; he doesn't.
"Are you sure?" asked Dr. Smith (he wasn't) — "really sure?"
In 1969, 3.5 million people watched; it cost $1,234.56 (about €1.100,00).
https://example.org/a/b?c=d&e=%20f#g user@example.org C:\\temp\\x.txt
ALL CAPS AND MiXeD cAsE, hyphen-ated, under_scored, camelCase
antidisestablishmentarianism floccinaucinihilipilification
<b>bold</b> &amp; &lt;tag&gt; {"json": [1, 2, null]} SELECT * FROM t;
It’s “curly” ‘quotes’ — en–dash … ellipsis ‹single› «guillemets» „low“
naïve café Ångström œuvre Straße ÆØÅ İstanbul ışık
Antananarivo dia renivohitr'i Madagasikara.
ﬁ ﬂ ﬃ ½ ⅓ ① Ⅷ ㎏ № ™ ℃ Å ﷺ
ＦＵＬＬ　ＷＩＤＴＨ　１２３，。！？ｱｲｳ
Привет, мир! Как дела? Ёжик, щёлк.
Γειά σου Κόσμε· τι κάνεις;
שלום עולם. מה שלומך?
مرحبا بالعالم! كيف حالك؟ ١٢٣
नमस्ते दुनिया। आप कैसे हैं?
你好，世界。今天天气很好，还有雨吗？
東京は日本の首都です。カタカナ、ひらがな。
안녕하세요 세계. 오늘 날씨가 좋습니다.
สวัสดีชาวโลก วันนี้อากาศดี
𝔉𝔯𝔞𝔨𝔱𝔲𝔯 𝒮𝒸𝓇𝒾𝓅𝓉 𝟘𝟙𝟚 𐍈 𓀀
😀 😳 🚫 🦈 👩‍👩‍👧‍👦 🇲🇬 👍🏽 ❤️ ☃
e\u0301 e\u0302\u0301 a\u030a Z\u0351\u0343\u036ba\u035bl\u0363go
a▁b ▁▁ ▁start end▁
a  b   c\td
</s> <unk> <pad> <s> text
word</s>word <unk>word<pad>
not first >>fr<< >>cmn_Hans<< here
open >> fr << and >>close<<
1
-
...
?!?!?!
© ® § ¶ † ‡ • ° ± × ÷ ≠ ≤ ∞ ∑ √ ∫ α β π
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
x²+y³=z₂ H₂O E=mc² 10⁻⁹
Tel. +261 20 22 123 45, 12:30 a.m., 2024-02-29T23:59:59Z
M. d'Artagnan, O'Neill, rock 'n' roll, '90s, the Joneses'
"""

ODD = [
    "",
    " ",
    "   leading and trailing   ",
    "\n",
    "line\nbreak\r\nand\rmore",
    "tab\tand\x0bvertical\x0cform",
    "\x00",
    "nul\x00inside",
    "\x01\x02\x1b[31mred\x7f",
    "\x85 next line \u2028 line separator \u2029 paragraph",
    "\u00a0no-break\u00a0space\u202fnarrow\u2009thin\u3000wide",
    "zero\u200bwidth\u200cnon\u200djoiner\u2060\ufeff",
    "\ufeffbyte order mark",
    "soft\u00adhyphen",
    "\u202eright to left\u202c \u200fmark\u200e",
    "\ufffd replacement \ufffe \uffff",
    "\U0010ffff \U000e0041 \ue000",
    "a" * 1000,
    "word " * 400,
    "😀" * 200,
    "ÿ" * 100,
    "\u0301\u0301",
    "\u1160\u3164x",
]


def main() -> None:
    import sentencepiece
    import transformers

    folder = Path(sys.argv[1])
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    texts = [*SENTENCES.splitlines(), *ODD, *mixed(SENTENCES, seed=1, count=150)]
    ids = [tokenizer(text, split_special_tokens=True)["input_ids"] for text in texts]
    targets = [tokenizer(text_target=text, split_special_tokens=True)["input_ids"] for text in texts]
    drawn = draw_ids(tokenizer.vocab_size, ids, seed=2, count=150)
    golden: dict[str, Any] = {
        "made_by": "tests/golden/make_tokenizer_golden.py",
        "model": "Helsinki-NLP/opus-mt-en-mg",
        "versions": {
            "python": platform.python_version(),
            "sentencepiece": sentencepiece.__version__,
            "transformers": transformers.__version__,
        },
        "sha256": {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in ("config.json", "source.spm", "target.spm", "vocab.json")
        },
        "encoded": [
            {"text": text, "ids": text_ids, "target_ids": target_ids}
            for text, text_ids, target_ids in zip(texts, ids, targets, strict=True)
        ],
        "decoded": [{"ids": some, "text": tokenizer.decode(some, skip_special_tokens=True)} for some in drawn],
    }
    GOLDEN.write_text(one_case_per_line(golden), encoding="ascii")
    print(f"{GOLDEN}: {len(texts)} texts, {len(drawn)} lists of ids")


def one_case_per_line(golden: dict[str, Any]) -> str:
    members = []
    for name, value in golden.items():
        text = json.dumps(value)
        if isinstance(value, list):
            text = "[\n " + ",\n ".join(json.dumps(case) for case in value) + "\n]"
        members.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def mixed(alphabet: str, *, seed: int, count: int) -> list[str]:
    """Strings of random characters from `alphabet`, unlike real text."""
    draw = random.Random(seed)
    return ["".join(draw.choices(alphabet, k=draw.randint(1, 60))).strip("><") for _ in range(count)]


def draw_ids(vocab_size: int, encoded: list[list[int]], *, seed: int, count: int) -> list[list[int]]:
    """Ids that a model might generate: from the whole vocabulary, special ones included, and those of texts."""
    draw = random.Random(seed)
    drawn = [draw.choices(range(vocab_size), k=draw.randint(0, 20)) for _ in range(count)]
    for ids in drawn:
        ids.extend(draw.choices((0, 1, vocab_size - 1), k=draw.randint(0, 2)))
        draw.shuffle(ids)
    return drawn + encoded[:40]


if __name__ == "__main__":
    main()
