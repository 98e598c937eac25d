"""Measure the causal model on unseen texts: perplexity of fluent and shuffled ones, and reranking.

    python -m tools.demo.evaluate_lm --model worker/demo/lm

Perplexity: of unseen bulletins, and of the same with their sentences or their words shuffled. Retrieval: nDCG@10 and
MRR@10 of BM25's candidates, and of the same reranked by each method.
A model's folder runs in kvjobs' engine, a Hugging Face checkpoint in transformers (extra `train`). `perplexity` and
`rerank` take any other scoring function as well.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from jobs.tasks.shared_options import Timing
from tools.demo.grammar import Bulletin, unseen_bulletins
from tools.demo.retrieval import RetrievalSet, retrieval_set
from tools.demo.script_parser import script_parser
from worker.engine.causal.open import open_causal_model
from worker.engine.causal.protocol import Group, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.models.contents.present_files import has_weights
from worker.text.causal_tokenizer import CausalTokenizer

DEFAULT_MODEL = Path(__file__).parents[2] / "worker/demo/lm"
BATCH_TOKENS = 8192
CUTOFF = 10
TEMPLATES = {  # prompt, scored text: the defaults of reranking
    "query-likelihood": ("Document: {document}\nQuery:", " {query}"),
    "perplexity": ("Query: {query}\nDocument:", " {document}"),
}

# (prompt, scored text) -> the log-probability (natural) of the scored text, and its number of tokens. Without a prompt,
# the first token is not scored: there is no BOS.
Score = Callable[[Sequence[tuple[str, str]]], list[tuple[float, int]]]


def main() -> None:
    parser = script_parser("evaluate_lm", __doc__)
    parser.add_argument("--model", type=Path, default=DEFAULT_MODEL, help="a model's folder, or a checkpoint")
    parser.add_argument("--documents", type=int, default=100, help="bulletins to take the perplexity of")
    parser.add_argument("--corpus", type=int, default=1000, help="documents to search")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    score = by_transformers(options.model) if has_weights(options.model) else by_engine(options.model)

    bulletins = list(unseen_bulletins(options.documents, options.seed))
    for name, texts in variants(bulletins, Random(f"shuffled {options.seed}")).items():
        print(f"perplexity of a token, {name:<20} {perplexity(score, texts):8.2f}")

    made = retrieval_set(options.corpus, options.queries, options.seed)
    orders = {"first stage (BM25)": {query: [found for found, _ in made.candidates[query]] for query in made.queries}}
    orders |= {method: rerank(score, made, method) for method in TEMPLATES}
    for name, order in orders.items():
        ranks = [order[query].index(relevant) + 1 for query, relevant in made.relevant.items()]
        print(f"{name:<20} nDCG@{CUTOFF} {ndcg(ranks):.3f}  MRR@{CUTOFF} {mrr(ranks):.3f}")


def variants(bulletins: Sequence[Bulletin], rng: Random) -> dict[str, list[str]]:
    """The texts as they are, with shuffled sentences, and with shuffled words."""
    made: dict[str, list[str]] = {"fluent": [], "sentences shuffled": [], "words shuffled": []}
    for bulletin in bulletins:
        sentences = [pair.english for pair in bulletin.sentences]
        words = " ".join(sentences).split()
        made["fluent"].append(" ".join(sentences))
        made["sentences shuffled"].append(" ".join(rng.sample(sentences, len(sentences))))
        made["words shuffled"].append(" ".join(rng.sample(words, len(words))))
    return made


def perplexity(score: Score, texts: Sequence[str]) -> float:
    """Per token, over all texts: exp of the sum of their negative log-probabilities over the sum of their tokens."""
    scores = score([("", text) for text in texts])
    return math.exp(-sum(total for total, _ in scores) / sum(num_tokens for _, num_tokens in scores))


def rerank(score: Score, made: RetrievalSet, method: str) -> dict[str, list[str]]:
    """For each query, its candidates by mean log-probability per token, best first."""
    prompt, scored = TEMPLATES[method]
    pairs = [(query, document) for query in made.queries for document, _ in made.candidates[query]]
    slots = [{"query": made.queries[query], "document": made.documents[document]} for query, document in pairs]
    scores = score([(prompt.format_map(texts), scored.format_map(texts)) for texts in slots])
    means = {pair: total / num_tokens for pair, (total, num_tokens) in zip(pairs, scores, strict=True)}
    return {
        query: sorted((found for found, _ in candidates), key=lambda found: (-means[query, found], found))
        for query, candidates in made.candidates.items()
    }


def ndcg(ranks: Sequence[int]) -> float:
    """Mean nDCG@CUTOFF, from the rank (from 1) of each query's only relevant document."""
    return sum(1 / math.log2(rank + 1) for rank in ranks if rank <= CUTOFF) / len(ranks)


def mrr(ranks: Sequence[int]) -> float:
    """Mean reciprocal rank, 0 beyond CUTOFF."""
    return sum(1 / rank for rank in ranks if rank <= CUTOFF) / len(ranks)


def by_engine(directory: Path) -> Score:
    reader = open_causal_model(directory).new_reader()
    tokenizer = CausalTokenizer.open(directory)

    def score(texts: Sequence[tuple[str, str]]) -> list[tuple[float, int]]:
        groups = [Group(tokenizer.encode(prompt).ids, [tokenizer.encode(scored).ids]) for prompt, scored in texts]
        found = read_all(reader, groups, RunContext(Stopwatch(Timing.OFF)))
        return [(float(log_probs.sum(dtype=np.float64)), len(log_probs)) for (log_probs,) in found]

    return score


def by_transformers(directory: Path) -> Score:
    import torch
    import transformers
    from tokenizers import Tokenizer

    torch.set_flush_denormal(True)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))

    def score(texts: Sequence[tuple[str, str]]) -> list[tuple[float, int]]:
        # Prompt and scored text are tokenized separately, as in reranking.
        rows = [(tokenizer.encode(prompt).ids, tokenizer.encode(scored).ids) for prompt, scored in texts]
        scores = [(0.0, 0)] * len(rows)
        longest_first = sorted(range(len(rows)), key=lambda index: -len(rows[index][0] + rows[index][1]))
        while longest_first:
            longest = sum(map(len, rows[longest_first[0]]))
            num_rows = max(1, BATCH_TOKENS // longest)
            batch, longest_first = longest_first[:num_rows], longest_first[num_rows:]
            tensors = [torch.tensor(rows[index][0] + rows[index][1]) for index in batch]
            ids = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)  # (B, S), padded on the right
            with torch.inference_mode():
                log_probs = model(input_ids=ids).logits[:, :-1].log_softmax(-1)  # (B, S - 1, V)
            of_tokens = log_probs.gather(-1, ids[:, 1:, None])[..., 0]  # (B, S - 1)
            for row, index in enumerate(batch):
                prompt, scored = rows[index]
                first, last = max(0, len(prompt) - 1), len(prompt) + len(scored) - 1
                scores[index] = (of_tokens[row, first:last].double().sum().item(), last - first)
        return scores

    return score


if __name__ == "__main__":
    main()
