"""Writes the plurals of languages by Unicode's CLDR, as Babel has them, for the tests of jobs/files/plural_table.py.

    pip install babel && python -m tools.cldr_plurals > tests/unit/jobs/files/cldr_plurals.json

Languages with the same categories for the same numbers are one line: the categories that they have (with those of
fractions), and the index in `CATEGORIES` of that of each number of `NUMBERS`.
"""

import json

from babel import Locale, __version__, localedata

CATEGORIES = ("zero", "one", "two", "few", "many", "other")
# Without whole millions, which are `many` in Spanish and French.
NUMBERS = [
    *range(130),
    199,
    200,
    201,
    999,
    *range(1000, 1025),
    10_000,
    21_000,
    40_000,
    60_000,
    100_000,
    140_000,
    1_100_000,
]


def main() -> None:
    groups: dict[tuple[str, str], list[str]] = {}
    for name in sorted(localedata.locale_identifiers()):
        if "_" in name and name not in ("pt_BR", "pt_PT"):
            continue
        rule = Locale.parse(name).plural_form
        categories = " ".join(each for each in CATEGORIES if each in {*rule.tags, "other"})
        indices = "".join(str(CATEGORIES.index(rule(number))) for number in NUMBERS)
        groups.setdefault((categories, indices), []).append(name)
    rows = [
        {"categories": categories, "indices": indices, "languages": " ".join(languages)}
        for (categories, indices), languages in sorted(groups.items())
    ]
    print(json.dumps({"babel": __version__, "numbers": NUMBERS, "groups": rows}, indent=0))


if __name__ == "__main__":
    main()
