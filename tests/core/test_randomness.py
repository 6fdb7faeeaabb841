"""Keys: independent streams by label, and words that only the key tells from chance."""

import hashlib

import numpy as np
import pytest

from understudy.core.randomness import Key


def chacha20_block(key: bytes, counter: int) -> list[int]:
    """A block of the key stream as RFC 8439 writes it down, for a nonce of zeros."""
    words = [int.from_bytes(key[i : i + 4], "little") for i in range(0, 32, 4)]
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *words, counter, 0, 0, 0]
    state = list(start)
    for number in range(80):
        i, odd = number % 4, number // 4 % 2
        a, b, c, d = (4 * row + (i + row * odd) % 4 for row in range(4))
        for into, added, mixed, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[into] = (state[into] + state[added]) % 2**32
            turned = state[mixed] ^ state[into]
            state[mixed] = (turned << turn | turned >> (32 - turn)) % 2**32
    return [(one + other) % 2**32 for one, other in zip(state, start, strict=True)]


def test_words_are_those_of_chacha20_keyed_by_the_path():
    key = Key.new(7).child("noise")
    path = f"{key.entropy} {key.path}".encode()
    found = key.words(20)
    expected = [word for counter in range(3) for word in chacha20_block(hashlib.shake_256(path).digest(32), counter)]
    assert found.view("<u4").tolist() == expected[:40] and found.dtype == np.uint64
    published = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28")  # RFC 8439, appendix A.1, test vector 1
    assert b"".join(word.to_bytes(4, "little") for word in chacha20_block(bytes(32), 0)[:4]) == published


def test_a_secret_root_has_256_bits():
    assert max(Key.new().entropy.bit_length() for _ in range(20)) > 250


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
