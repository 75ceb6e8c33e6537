"""Numbers and sizes in words."""

import pytest

from losslens.text import size_in_words


@pytest.mark.parametrize(
    ("size", "words"), [(512, "512 bytes"), (2048, "2.0 KiB"), (5 * 2**20, "5.0 MiB"), (2**50, "1024.0 TiB")]
)
def test_sizes_read_as_people_write_them(size, words):
    assert size_in_words(size) == words
