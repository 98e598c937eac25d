"""Record what sentence-transformers' CrossEncoder reads and gives, so that the tests need no torch.

    python tests/golden/make_cross_encoder_golden.py

Needs the extra `train`, and sentence-transformers 5.7. Run from the top of the checkout. The checkpoints are random and
tiny and are not kept: the tests write them again, from the same seed.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from sentence_transformers import CrossEncoder

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.cross_encoder_checkpoints import SETTINGS, write_cross_encoder_checkpoint  # noqa: E402

PAIRS = [
    ("when will it rain?", "Rain in the north on Monday."),
    ("rain", "snow"),
    ("Where is the wind?", "  The wind will turn to the south, and the sun\nwill be in the north on Tuesday. "),
    ("what", "naïve Öl 雪 🙂 \t x"),
    ("is there snow? " * 3, "the rain " * 40),
    ("the snow in the north " * 12, "snow"),
    ("the wind and the rain " * 9, "what the sun is, when the snow is in the north " * 7),
]


def main() -> None:
    cases = []
    for number, (name, settings) in enumerate(SETTINGS.items()):
        with tempfile.TemporaryDirectory() as folder:
            write_cross_encoder_checkpoint(Path(folder), seed=number, **settings)
            model = CrossEncoder(folder, device="cpu", model_kwargs={"attn_implementation": "eager"})
            model.model.config.reference_compile = False
            logits = model.predict(PAIRS, activation_fn=torch.nn.Identity(), batch_size=1)
            scores = model.predict(PAIRS, batch_size=1)
            read = [model.preprocess([pair]) for pair in PAIRS]
        rows = [
            {
                "query": query,
                "document": document,
                "ids": one["input_ids"][0].tolist(),
                "types": one["token_type_ids"][0].tolist() if "token_type_ids" in one else None,
                "logit": float(logit),
                "score": float(score),
            }
            for (query, document), one, logit, score in zip(PAIRS, read, logits, scores, strict=True)
        ]
        cases.append({"name": name, "seed": number, "pairs": rows})
    versions = {package: version(package) for package in ("sentence-transformers", "torch", "transformers")}
    models = ",\n".join(map(json.dumps, cases))  # a line each
    content = f'{{"versions": {json.dumps(versions)}, "models": [\n{models}\n]}}\n'
    (HERE / "cross_encoder.json").write_text(content)


if __name__ == "__main__":
    main()
