"""
Where words of a sentence are in its translation, by an alignment.

Knows: words and their weights. Does not know: marks in a translation, models.
"""

import unicodedata
from bisect import bisect_left, bisect_right

import numpy as np

from worker.text.marks.mark import Kind
from worker.text.word_alignment import Alignment, words

# A mark alone is flagged where no word of the translation comes as much from the word behind it. In 600 sentences of
# the bundled model's grammar, with attention that was trained to align and that was not: 2 of 3 that are not right in
# both, and 1 of 3 and 1 of 5 that are. (Of the 250 of `bench.marks`, with the former: 1 of 2, and 2 of 5.)
_CLEAR = 0.3
_FLOOR = 0.2  # a word whose highest weight is below is not taken for one that is


class WordPlaces:
    """Where words of a sentence are in its translation.

    Shapes: I words of the sentence, J of the translation.
    """

    def __init__(self, source: str, target: str, alignment: Alignment) -> None:
        self.source, self.target = source, target
        self._words, self._found = alignment.source, alignment.target
        self._starts = [start for start, _stop in self._words]
        self._stops = [stop for _start, stop in self._words]
        self._weights = alignment.word_weights()
        self._sums = np.zeros((len(self._found), len(self._words) + 1))  # of the first words
        np.cumsum(self._weights, axis=1, out=self._sums[:, 1:])
        self._is_known = self._sums[:, -1:].ravel() > 0  # (J,)
        highest = self._weights.max(axis=0, initial=0)
        self._linked = np.flatnonzero(highest > 0).tolist()

    def point(self, at: int, kind: Kind) -> tuple[int, bool]:
        """The place of a mark alone that stands at `at`, and whether it is that for sure."""
        if not self._linked:
            return round(at * len(self.target) / max(1, len(self.source))), False
        if at == len(self.source) and self._words and self._stops[-1] < at and kind != Kind.BLANK:
            return len(self.target), True
        behind = bisect_left(self._starts, at)  # the word behind the mark
        if kind == Kind.BLANK and (place := self._beside_number(behind)) is not None:
            return place, True
        before = bisect_left(self._linked, behind)
        left = self._linked[before - 1] if before else None
        right = self._linked[before] if before < len(self._linked) else None
        touches_right = right is not None and not self.source[at : self._starts[right]].strip()
        touches_left = left is not None and not self.source[self._stops[left] : at].strip()
        if right is not None and (left is None or (touches_right and kind != Kind.BLANK) or not (touches_left or left)):
            word, is_sure = self._border(left if touches_left else None, right)
            return self._found[word][0], is_sure
        assert left is not None
        word, is_sure = self._border(left, None)
        return self._found[word - 1][1], is_sure

    def run(self, start: int, stop: int) -> tuple[int, int, bool] | None:
        """The characters of the translation that source[start:stop] became, and whether they are that for sure; None:
        no word of it is aligned."""
        first, end = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        if start == 0 and stop == len(self.source):
            return 0, len(self.target), True
        if first >= end:
            return self._signs(start, stop)
        if first == 0 and end == len(self._words) and self._found:
            begin, last, is_sure = 0, len(self._found) - 1, True
        else:
            best = self._best_run(first, end)
            if best is None:
                return None
            begin, last, is_sure = best
        left, right = self._found[begin][0], self._found[last][1]
        if _is_sign(self.source[start]):
            while left and _is_sign(self.target[left - 1]):
                left -= 1
        if _is_sign(self.source[stop - 1]):
            while right < len(self.target) and _is_sign(self.target[right]):
                right += 1
        return left, right, is_sure

    def word_at(self, at: int) -> tuple[int, int]:
        """The word of the translation at or behind the place of a mark at `at`, else the last one: for a pair none of
        whose words is aligned, since nothing between two signs of Markdown is no emphasis."""
        place, _is_sure = self.point(at, Kind.OPEN)
        behind = [word for word in self._found if word[1] > place] or list(self._found[-1:])
        return behind[0] if behind else (place, place)

    def _beside_number(self, behind: int) -> int | None:
        """Where a blank between the words `behind - 1` and `behind` is in the translation, by the one of them that is a
        number, as in `10 km` and `§ 5`; None: none is one that the translation has once."""
        for index, side in ((behind - 1, 1), (behind, 0)):
            if 0 <= index < len(self._words):
                number = self.source[slice(*self._words[index])]
                spans = [span for span in self._found if self.target[slice(*span)] == number]
                if number.isdecimal() and len(spans) == 1:
                    return spans[0][side]
        return None

    def _border(self, left: int | None, right: int | None) -> tuple[int, bool]:
        """Before which word of the translation, 0 to J, the word `left` of the sentence ends and the word `right`
        begins; and whether that is clear. It is where the weight of `right`, as a share of its highest, rises most and,
        counted half, that of `left` falls: a word of a phrase whose words share the weights counts as much as a word
        that has its own."""
        rise = np.zeros(len(self._found) + 1)
        word = left if right is None else right
        assert word is not None
        highest = self._weights[:, word].max()
        if right is not None:
            rise[:-1] += np.diff(self._weights[:, right], prepend=0) / max(highest, _FLOOR)
            rise[-1] = -1
        if left is not None:
            rise[1:] -= np.diff(self._weights[:, left], append=0) * (1 if right is None else 0.5)
            rise[0] -= right is None
        place = int(rise.argmax()) if right is not None else len(rise) - 1 - int(rise[::-1].argmax())
        return place, bool(highest >= _CLEAR)

    def _signs(self, start: int, stop: int) -> tuple[int, int, bool]:
        """The same of a part without words: the signs at its place in the translation, those that are equal first (full
        width counts as half), else nothing at that place."""
        place, _is_sure = self.point(start, Kind.BLANK if self.source[:start].strip() else Kind.OPEN)
        signs = unicodedata.normalize("NFKC", self.source[start:stop].strip())
        equal = [
            (at, at + len(signs))
            for at in range(len(self.target))
            if signs and unicodedata.normalize("NFKC", self.target[at : at + len(signs)]) == signs
        ]
        if equal:
            return *min(equal, key=lambda span: abs(span[0] - place)), True
        stop = place
        while stop < len(self.target) and _is_sign(self.target[stop]):
            stop += 1
        return place, stop, stop > place

    def _best_run(self, first: int, end: int) -> tuple[int, int, bool] | None:
        """The first and last target word of the run that comes most from source words first..end: with the greatest
        sum of what is above one half of each word; and whether all words in it, and none of the others, come mostly
        from them."""
        share = self._sums[:, end] - self._sums[:, first]  # (J,)
        if not share.max(initial=0) > 0:
            return None
        gain = np.where(self._is_known, share - 0.5, 0)
        sums = np.concatenate(([0], np.cumsum(gain)))
        lowest = np.minimum.accumulate(sums[:-1])
        last = int((sums[1:] - lowest).argmax())
        begin = int(np.flatnonzero(sums[: last + 1] == lowest[last])[-1])
        if sums[last + 1] <= sums[begin]:
            begin = last = int(share.argmax())
        inside = np.zeros(len(share), bool)
        inside[begin : last + 1] = True
        return begin, last, bool((inside == (share > 0.5))[self._is_known].all())


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def by_length(source: str, target: str) -> Alignment:
    """Each word of the source with the word of the target that is as far from the beginning, in parts of the whole."""
    source_words, target_words = words(source), words(target)
    if not source_words or not target_words:
        return Alignment(source_words, target_words, ())
    middles = [start + stop for start, stop in target_words]
    links = []
    for index, (start, stop) in enumerate(source_words):
        wanted = (start + stop) * len(target) / len(source)
        near = bisect_left(middles, wanted)
        if near == len(middles) or (near and wanted - middles[near - 1] < middles[near] - wanted):
            near -= 1
        links.append((index, near))
    return Alignment(source_words, target_words, tuple(links))
