"""Keys: independent streams by label, and words that only the key tells from chance."""

import hashlib

import numpy as np
import pytest

from understudy.core.randomness import Key


def test_words_are_those_of_shake_256_over_the_key():
    key = Key.new(7).child("noise")
    seed = f"{key.sequence.entropy} {key.sequence.spawn_key}".encode()
    expected = [int.from_bytes(hashlib.shake_256(seed).digest(24)[8 * i : 8 * i + 8], "little") for i in range(3)]
    assert key.words(3).tolist() == expected and key.words(3).dtype == np.uint64


def test_fewer_words_are_the_first_of_more_and_none_are_none():
    key = Key.new(0)
    np.testing.assert_array_equal(key.words(10), key.words(1000)[:10])
    assert len(key.words(0)) == 0


def test_every_label_and_every_root_has_words_of_its_own():
    keys = [Key.new(seed).child(one).child(other) for seed in range(3) for one in "ab" for other in ("", "a", "b")]
    words = np.concatenate([key.words(100) for key in [*keys, Key.new(0), Key.new(1), Key.new(), Key.new()]])
    assert len(np.unique(words)) == len(words)


def test_bits_of_words_are_even_and_independent_of_each_other():
    bits = np.unpackbits(Key.new(0).words(4000).view(np.uint8)).reshape(4000, 64)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(4000)
    together = np.asarray(np.corrcoef(bits.T))[np.triu_indices(64, 1)]
    assert np.abs(together).max() < 5 / np.sqrt(4000)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ValueError, match="seed"):
        Key.new(seed)


def test_children_of_a_secret_key_are_secret():
    assert Key.new().child("a").secret and not Key.new(0).child("a").secret
    assert "7" not in repr(Key.new(7))
