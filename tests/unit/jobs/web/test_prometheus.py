"""The text format of Prometheus, read by its own parser."""

import math

from prometheus_client.parser import text_string_to_metric_families

from jobs.web.pages.monitoring import Family, Sample, exposition


def read(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_labels_come_back_as_they_were_and_what_could_hide_is_visible() -> None:
    names = ['a "b" \\ c', "=", "{x}", "", "译", "two\nlines", "\u202e\x1b\ud800", 'x"} 1\nkvjobs_y 2']
    text = exposition([Family("kvjobs_x", "gauge", "Help.", [Sample(1, {"name": name}) for name in names])])

    found = read(text)

    assert list(found) == ["kvjobs_x"]
    assert [labels["name"] for labels, _ in found["kvjobs_x"]] == [
        *names[:5],
        r"two\nlines",
        r"\u202e\x1b\ud800",
        r'x"} 1\nkvjobs_y 2',
    ]
    text.encode()


def test_numbers_come_back_as_they_were() -> None:
    numbers = [0, 1, 10**15, 1.5, 1e-9, math.inf, -math.inf, math.nan]
    samples = [Sample(number, {"n": str(place)}) for place, number in enumerate(numbers)]

    found = [value for _, value in read(exposition([Family("kvjobs_x", "gauge", "Help.", samples)]))["kvjobs_x"]]

    assert found[:-1] == numbers[:-1]
    assert math.isnan(found[-1])


def test_a_family_says_what_it_is_even_without_a_sample() -> None:
    text = exposition([Family("kvjobs_x_total", "counter", "Two\nlines \\.", [])])

    assert text == "# HELP kvjobs_x_total Two\\nlines \\\\.\n# TYPE kvjobs_x_total counter\n"
