"""Full stops that end no sentence, and those that do, by language."""

import tomllib
from pathlib import Path

import pytest

from worker.text import segments
from worker.text.segments import segment

WHOLE = [
    ("en", "It fell approx. 5 mm in the north."),
    ("en", "Winds of approx. forty knots, incl. gusts, blew."),
    ("en", "Dr. Who and Prof. Lee saw Gen. Grant at Ft. Worth."),
    ("en", "The town (est. 1950, pop. low) is shown in fig. 3 and vol. II."),
    ("en", "Ask Acme Inc. about rain, snow, etc. before noon."),
    ("en", "The app runs on Node.JS and ASP.NET, via foo.Bar() at example.Com/Path.Html today."),
    ("fr", "M. Dupont est arrivé hier."),
    ("fr", "Mme. Zola et Mgr. Albert, p. ex. à Lyon, lisent chap. 4, n. 8, en 52 av. J.-C. à Rome."),
    ("de", "Der Preis beträgt 5 Euro inkl. MwSt. und zzgl. Versand."),
    ("de", "Dr. Müller zahlt exkl. Porto, d. h. Nr. 7 auf S. 8."),
    ("es", "Dña. Ana y el Sr. López esperan aprox. 9 litros, p. ej. Madrid, pág. 3."),
    ("it", "Il Sig. Rossi legge pag. 5, n. 8, p. es. Roma."),
    ("it", "Cesare morì nel 44 a.C. a Roma."),
    ("pt", "A Profa. Dias vive na Av. Paulista, p. ex. aprox. 9 km, pág. 5."),
    ("ca", "La Sra. Puig, p. ex. Girona, viu aprox. 5 km al nord."),
    ("ro", "Dl. Popescu stă pe str. Lungă nr. 5."),
    ("nl", "Mevr. Jansen woont bijv. Utrecht, prijs incl. BTW, nr. 6."),
    ("nl", "Gisteren kwamen mevr. de Vries, dhr. De Boer en drs. Bos."),
    ("swe", "Regn väntas t.ex. Malmö och Lund, dvs. Skåne, kl. 5."),
    ("da", "Prisen er inkl. Moms, f.eks. Odense, kl. 5."),
    ("nb", "Regn ventes f.eks. Bergen, dvs. Vestlandet, kl. 5."),
    ("fi", "Esim. Helsinki ja ns. Kehä, n. 5 km, klo. 9."),
    ("pl", "Dr. Nowak mieszka m.in. Kraków, ul. Długa, nr. 5, ok. 5 km."),
    ("cs", "Např. Praha, č. 5, str. 6, ul. Dlouhá, sv. Jan."),
    ("tr", "Sn. Ali, bkz. Tablo, örn. Ankara, s. 5."),
    ("id", "Bpk. Budi tinggal di Jl. Merdeka No. 5."),
    ("el", "Ο κ. Παπάς, π.χ. Αθήνα, σελ. 5."),
    ("ru", "Он жил на ул. Ленина, им. Пушкина, напр. Москва, рис. 8, т. е. Тверь, обл. Тверь."),
    ("ru", "Он пришёл, т. е. Иван и др. гости пришли."),
    ("uk", "Він жив на вул. Франка, ім. Шевченка, див. Рис, табл. 5."),
    ("bg", "Той живее на ул. Иван Вазов, напр. София, фиг. 5."),
    ("hi", "कल डॉ. शर्मा ने कहा।"),
    ("hi", "श्री. वर्मा और एम. एस. धोनी रु. 500 देकर 5 कि.मी. दूर गए।"),
    ("mr", "डॉ. पाटील आले।"),
    ("bn", "ডা. রহমান এসেছেন।"),
    ("ar", "قال د. أحمد ذلك"),
    ("ar", "كتب أ.د. خالد في ص. 5 ورقم ص. ب. 123"),
    ("ar", "قال د. خالد وم. علي ذلك"),
    ("xx", "Dr. Nemo sleeps."),
]

TWO = [
    ("en", "They saw rain, snow, etc. The next day was dry."),
    ("en", "He met the doctor. Who was it?"),
    ("en", "He said so.Then he left."),
    ("en", "Nobody fell. The sec. was over."),
    ("en", "We had it all. Then it rained."),
    ("de", "Es gibt Hunde, Katzen usw. Die Tiere schlafen."),
    ("de", "Es gibt Regen, Schnee etc. Das Wetter bleibt."),
    ("fr", "Il y a de la pluie, de la neige, etc. Il fait froid."),
    ("es", "Hay lluvia, nieve, etc. La tarde es fría."),
    ("it", "Ci sono pioggia, neve, ecc. La sera è fredda."),
    ("pt", "Há chuva, neve, etc. A tarde é fria."),
    ("nl", "Er is regen, sneeuw, enz. Het blijft koud."),
    ("sv", "Det blir regn, snö osv. Det är kallt."),
    ("pl", "Będzie deszcz, śnieg itd. Potem słońce."),
    ("cs", "Bude déšť, sníh atd. Potom slunce."),
    ("tr", "Yağmur, kar vb. Sonra güneş."),
    ("ru", "Будут дождь, снег и т. д. Потом солнце."),
    ("ru", "Будут дождь, снег и др. Потом солнце."),
    ("uk", "Буде дощ, сніг і т. д. Потім сонце."),
    ("hi", "वह घर गया। डॉ. शर्मा आए।"),
    ("ar", "هطل المطر. ثم توقف."),
]


@pytest.mark.parametrize(("language", "text"), WHOLE)
def test_a_full_stop_behind_an_abbreviation_ends_no_sentence(language: str, text: str) -> None:
    assert [span.text for span in segment(text, language)] == [text]


@pytest.mark.parametrize(("language", "text"), TWO)
def test_a_full_stop_that_ends_a_sentence_still_does(language: str, text: str) -> None:
    sentences = [span.text for span in segment(text, language) if span.translatable]

    assert len(sentences) == 2
    assert "".join(sentences).replace(" ", "") == text.replace(" ", "")


def test_every_list_is_of_a_known_kind_and_its_words_end_in_a_full_stop() -> None:
    lists = tomllib.loads(Path(segments.__file__).with_name("abbreviations.toml").read_text(encoding="utf-8"))

    assert {kind for kinds in lists.values() for kind in kinds} == {"inside", "number", "lower", "ends"}
    words = [word for kinds in lists.values() for listed in kinds.values() for word in listed.split()]
    assert [word for word in words if not (word.endswith(".") and word.strip("~") == word)] == []
