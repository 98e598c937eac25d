"""Floating-point operations per target token, compared with sums done by hand."""

import pytest

from bench.checkpoints.shapes import SHAPES
from bench.harness.flops import Sizes, flop_per_token

OPUS = Sizes.of(SHAPES["opus-shaped"])


def test_one_layer_of_width_one_costs_what_the_formula_gives_term_by_term():
    sizes = Sizes(encoder_layers=1, decoder_layers=1, width=1, ffn=1, head=1)

    # encoder 2 x (8 + 4 + 8) + keys 2 x 4 + decoder 3 x (12 + 4 + 8 + 6) + head 3 x 2, by 3 tokens
    assert flop_per_token(sizes, source_tokens=2, target_tokens=3) == pytest.approx((40 + 8 + 90 + 6) / 3)


def test_a_token_of_an_opus_sized_model_costs_about_150_mflop_two_fifths_of_it_in_the_head():
    flop = flop_per_token(OPUS, source_tokens=32, target_tokens=32)

    assert flop == pytest.approx(155e6, rel=0.02)
    assert 2 * OPUS.width * OPUS.head / flop == pytest.approx(0.43, abs=0.01)


def test_beams_multiply_the_cost_of_the_decoder_but_not_of_the_encoder():
    one, four = (flop_per_token(OPUS, source_tokens=32, target_tokens=32, beams=beams) for beams in (1, 4))

    encoder = one - (four - one) / 3
    assert encoder == pytest.approx(6 * (12 * 512**2 + 4 * 512 * 2048 + 4 * 32 * 512))
