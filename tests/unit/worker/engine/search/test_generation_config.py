"""Which settings generation_config.json may hold, and how kvjobs reads them."""

from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError
from jobs.tasks.translate import TranslateOptions
from worker.engine.search.generation_config import GenerationConfig, read_generation
from worker.models.json_file import read_json

# The settings that opus-mt models publish.
CONFIG = {"eos_token_id": 0, "pad_token_id": 99, "decoder_start_token_id": 99, "max_length": 512, "num_beams": 6}
GENERATION = {
    "bad_words_ids": [[99]],
    "decoder_start_token_id": 99,
    "eos_token_id": 0,
    "forced_eos_token_id": 0,
    "max_length": 512,
    "num_beams": 4,
    "pad_token_id": 99,
    "renormalize_logits": True,
}


def read(
    generation: dict[str, Any] | None = GENERATION, config: dict[str, Any] = CONFIG, max_positions: int = 512
) -> GenerationConfig:
    return read_generation(config, generation, vocab_size=100, max_positions=max_positions)


def test_the_settings_are_read_from_generation_config_alone() -> None:
    assert read() == GenerationConfig(
        start_id=99,
        eos_id=0,
        max_new_tokens=511,
        num_beams=4,
        suppressed_ids=(99,),
        forced_eos_id=0,
        renormalize_logits=True,
    )
    assert read({key: value for key, value in GENERATION.items() if key != "num_beams"}).num_beams == 1


def test_without_generation_config_the_settings_are_read_from_config() -> None:
    rules = read(None)

    assert (rules.num_beams, rules.max_new_tokens, rules.forced_eos_id) == (6, 511, None)


def test_config_gives_the_ids_that_generation_config_leaves_out() -> None:
    assert read({"num_beams": 2}).start_id == 99


def test_special_ids_are_read_and_never_assumed() -> None:
    """opus-mt-tc-big-fr-en has the end id 43311 and the start id 53016."""
    rules = read_generation(
        {"eos_token_id": 43311, "pad_token_id": 53016, "decoder_start_token_id": 53016},
        None,
        vocab_size=53017,
        max_positions=1024,
    )

    assert (rules.eos_id, rules.start_id, rules.suppressed_ids) == (43311, 53016, (53016,))


@pytest.mark.parametrize("name", ["eos_token_id", "decoder_start_token_id"])
def test_a_missing_special_id_is_refused_by_name(name: str) -> None:
    config = {key: value for key, value in CONFIG.items() if key != name}

    with pytest.raises(ModelError, match=f"which id is {name}"):
        read({}, config)


def test_the_padding_token_is_suppressed_even_if_no_list_names_it() -> None:
    assert read({"num_beams": 2}).suppressed_ids == (99,)
    assert read({"num_beams": 2, "pad_token_id": 0}).suppressed_ids == (), "here padding is the end of sentence"


def test_allow_pad_permits_the_padding_token_unless_the_model_forbids_it() -> None:
    allowed = TranslateOptions(allow_pad=True)
    rules = read({"num_beams": 2, "suppress_tokens": [7]})

    assert (rules.suppressed_ids, rules.unlisted_pad_id) == ((7, 99), 99)
    assert rules.with_options(allowed, max_positions=512).suppressed_ids == (7,)
    assert read(GENERATION).with_options(allowed, max_positions=512).suppressed_ids == (99,)


@pytest.mark.parametrize(
    ("generation", "positions", "tokens"),
    [
        ({"max_length": 19}, 512, 18),  # max_length includes the start token
        ({"max_length": 20}, 512, 20),  # 20 is transformers' default, which is taken as max_new_tokens
        ({"max_length": 20}, 20, 19),
        ({"max_length": 21}, 512, 20),
        ({"max_length": 20, "max_new_tokens": 30}, 512, 30),
        ({"max_new_tokens": 900}, 512, 512),
        ({}, 512, 512),
        ({"max_length": 1}, 512, 1),
    ],
)
def test_the_maximum_length_counts_generated_tokens(generation: dict[str, Any], positions: int, tokens: int) -> None:
    assert read(generation, max_positions=positions).max_new_tokens == tokens


def test_the_minimum_length_counts_generated_tokens() -> None:
    assert read({"min_length": 5}).min_new_tokens == 4
    assert read({"min_length": 5, "min_new_tokens": 7}).min_new_tokens == 7
    assert read({"min_length": 0}).min_new_tokens == 0


def test_null_means_not_set() -> None:
    assert read(GENERATION | {"forced_bos_token_id": None, "suppress_tokens": None, "do_sample": None}) == read()


def test_bad_words_of_one_id_are_suppressed_ids_and_longer_ones_are_bad_sequences() -> None:
    rules = read(GENERATION | {"bad_words_ids": [[99], [5], [0], [6, 7], [8, 9, 10]]})

    assert rules.suppressed_ids == (5, 99), "the end of sentence is never a bad word"
    assert rules.bad_sequences == ((6, 7), (8, 9, 10))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("do_sample", True),
        ("num_beam_groups", 2),
        ("diversity_penalty", 0.5),
        ("penalty_alpha", 0.6),
        ("guidance_scale", 2.0),
        ("encoder_no_repeat_ngram_size", 3),
        ("encoder_repetition_penalty", 1.2),
        ("exponential_decay_length_penalty", [5, 1.1]),
        ("sequence_bias", [[[5], -1.0]]),
        ("force_words_ids", [[5]]),
        ("constraints", [1]),
        ("stop_strings", ["."]),
        ("watermarking_config", {}),
        ("remove_invalid_values", True),
        ("max_time", 3.0),
    ],
)
def test_a_setting_that_would_change_tokens_is_never_ignored(name: str, value: Any) -> None:
    with pytest.raises(ModelError, match=rf"generation_config\.json .*{name} = "):
        read(GENERATION | {name: value})


def test_a_setting_that_changes_no_token_is_accepted() -> None:
    harmless = {"do_sample": False, "temperature": 0.7, "top_k": 5, "use_cache": True, "num_beam_groups": 1}

    assert read(GENERATION | harmless) == read()


@pytest.mark.parametrize(
    ("generation", "message"),
    [
        ({"eos_token_id": [0, 5]}, "eos_token_id is .0, 5.; kvjobs supports a single id"),
        ({"eos_token_id": 100}, "eos_token_id: 100; the graph has logits for ids below 100"),
        ({"bad_words_ids": [[100]]}, "generation_config.json suppresses an id that does not exist: 100"),
        ({"early_stopping": "sometimes"}, "early_stopping = 'sometimes'"),
        ({"forced_eos_token_id": 0, "suppress_tokens": [0]}, "forces forced_eos_token_id = 0 and suppresses it"),
        ({"bad_words_ids": [5]}, "holds a setting that cannot be understood"),
        ({"length_penalty": "long"}, "holds a setting that cannot be understood"),
        ({"suppress_tokens": [100]}, "suppresses an id that does not exist: 100"),
        ({"begin_suppress_tokens": [-1]}, "suppresses an id that does not exist: -1"),
        ({"num_beams": 0}, "num_beams is 0, and has to be a whole number from 1 on"),
        ({"num_beams": "4"}, 'num_beams is "4"'),
        ({"min_length": 2.5}, r"min_length is 2\.5"),
    ],
)
def test_an_invalid_setting_is_refused_with_the_reason(generation: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(GENERATION | generation)


def test_a_single_end_id_may_be_in_a_list() -> None:
    assert read(GENERATION | {"eos_token_id": [0]}).eos_id == 0


def test_options_override_the_model_and_none_means_not_set() -> None:
    options = TranslateOptions(beam_size=2, length_penalty=0.5, early_stopping=True, max_new_tokens=40)
    rules = read().with_options(options, max_positions=512)

    assert (rules.num_beams, rules.length_penalty, rules.early_stopping, rules.max_new_tokens) == (2, 0.5, True, 40)
    assert read().with_options(TranslateOptions(), max_positions=512) == read()


def test_an_option_may_be_false_or_zero() -> None:
    of_the_model = read(GENERATION | {"early_stopping": True, "length_penalty": 2.0})
    rules = of_the_model.with_options(TranslateOptions(early_stopping=False, length_penalty=0.0), max_positions=512)

    assert (rules.early_stopping, rules.length_penalty) == (False, 0.0)


def test_an_option_against_repetition_is_the_setting_of_the_same_name() -> None:
    """The ids of such settings are compared with those of transformers (tests/golden, tests/live)."""
    settings = {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2}

    assert read().with_options(TranslateOptions(**settings), max_positions=512) == read(GENERATION | settings)
    off = TranslateOptions(repetition_penalty=1.0, no_repeat_ngram_size=0)
    assert read(GENERATION | settings).with_options(off, max_positions=512) == read()


def test_an_option_may_exceed_the_models_default_length_but_not_its_positions() -> None:
    short = read(GENERATION | {"max_length": 20})

    for asked, given in ((300, 300), (9_000, 512)):
        options = TranslateOptions(max_new_tokens=asked)
        assert short.with_options(options, max_positions=512).max_new_tokens == given


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "holds list, not an object"),
        (b"\xff", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_a_file_that_is_not_a_json_object_is_refused_by_name(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(ModelError, match=f"config.json {message}"):
        read_json(file)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json .*not exist"):
        read_json(tmp_path / "config.json")


def test_the_config_of_a_published_model_is_read() -> None:
    """opus-mt-en-mg has no generation_config.json; its config.json holds the settings."""
    config = {
        "bad_words_ids": [[54687]],
        "bos_token_id": 0,
        "decoder_start_token_id": 54687,
        "eos_token_id": 0,
        "max_length": 512,
        "model_type": "marian",
        "num_beams": 4,
        "pad_token_id": 54687,
        "vocab_size": 54688,
    }
    rules = read_generation(config, None, vocab_size=54688, max_positions=512)

    assert (rules.num_beams, rules.max_new_tokens, rules.suppressed_ids) == (4, 511, (54687,))
    assert rules.forced_eos_id == 0, "the default of MarianConfig"


def test_an_end_that_a_configuration_says_not_to_force_is_not_forced() -> None:
    config = {"decoder_start_token_id": 2, "eos_token_id": 2, "forced_eos_token_id": None, "model_type": "bart"}

    assert read_generation(config, None, vocab_size=9, max_positions=8).forced_eos_id is None


def test_the_first_token_that_an_old_bart_forces_is_forced() -> None:
    """`force_bos_token_to_be_generated` of BartConfig, in a config.json without generation_config.json."""
    config = {
        "bos_token_id": 0,
        "decoder_start_token_id": 2,
        "eos_token_id": 2,
        "force_bos_token_to_be_generated": True,
        "model_type": "bart",
    }

    rules = read_generation(config, None, vocab_size=9, max_positions=8)

    assert (rules.forced_bos_id, rules.forced_eos_id) == (0, 2)
    assert rules.with_beginning(None, 7).forced_bos_id == 7
    assert rules.with_beginning(None, None) == rules
