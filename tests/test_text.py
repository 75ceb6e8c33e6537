"""Numbers and sizes in words."""

import pytest

from losslens.text import percent, share_in_words, shares_in_words, size_in_words


@pytest.mark.parametrize(
    ("size", "words"), [(512, "512 bytes"), (2048, "2.0 KiB"), (5 * 2**20, "5.0 MiB"), (2**50, "1024.0 TiB")]
)
def test_sizes_read_as_people_write_them(size, words):
    assert size_in_words(size) == words


@pytest.mark.parametrize("digits", [0, 1, 2])
def test_no_share_is_rounded_to_none_or_all_and_halves_go_up(digits):
    for thousandths in range(1, 1000):
        share = thousandths / 1000
        assert float(percent(share, digits).strip("<>%")) > 0
        text = share_in_words(share, digits)
        assert not text.startswith(("0%", "0.0%", "100"))
        if "under" not in text and "over" not in text:
            # Half up in integers: the float beside the half, as of 0.965, doesn't decide.
            units = (2 * thousandths * 10**digits + 10) // 20
            assert round(float(text.rstrip("%")) * 10**digits) == units
    assert percent(1.0, digits).startswith("100")
    assert percent(0.0, digits) == "0%"


def test_different_shares_look_different():
    assert len(set(shares_in_words(0.965, 0.955, 0.9651))) == 3
    assert shares_in_words(0.3, 0.3) == ["30%", "30%"]
    assert shares_in_words(1e-9, 2e-9) == ["under 1%"] * 2
