"""Questions about the facts of a bulletin, as sentences with slots ("frames"), in other words than the bulletin's.

Knows: for each kind of fact, the clauses of `rules` that state it and the frames that ask for it. Does not know: how a
clause is found in a text, or a frame filled (`questions`); other names of things (`paraphrases`).

Slots of a frame: `{place}`, `{day}` ("on Friday", "the day after Thursday"), `{thing}` and `{amount}`. A frame has a
place and at least one more slot: with less, many bulletins would answer the question.
"""

from typing import NamedTuple


class Kind(NamedTuple):
    """One kind of fact."""

    clauses: tuple[str, ...]  # that state it: the English half of clauses in the notation of `rules`
    frames: tuple[str, ...]  # that ask for it


KINDS: dict[str, Kind] = {
    "falls": Kind(
        (
            "{fall} will fall {where} {when}",
            "{fall} will spread from {place} to {place2} {at}",
            "{showers} will develop {where} {at}",
            "{showers} will move from {place} toward {place2} {at}",
        ),
        (
            "Will there be {thing} around {place} {day}?",
            "Does {place} get {thing} {day}?",
            "When should {place} brace itself for {thing}?",
            "{day}, could {thing} soak {place}?",
            "Is {thing} in store for {place} {day}?",
        ),
    ),
    "stays_dry": Kind(
        ("no {fall} is expected {where} {when}",),
        (
            "Can {place} do without umbrellas against {thing} {day}?",
            "Does {thing} spare {place} {day}?",
            "{day}, is {place} safe from {thing}?",
        ),
    ),
    "turns": Kind(
        ("{fall} will turn to {fall2} {where} {at}",),
        (
            "What does {thing} become around {place} {day}?",
            "{day}, what replaces {thing} at {place}?",
            "When does {thing} change its form around {place}?",
        ),
    ),
    "murk": Kind(
        ("{haze} will form {where} {at}", "{haze} will not lift {where} {when}"),
        (
            "Does {thing} blur the view around {place} {day}?",
            "When do people at {place} have to cope with {thing}?",
            "{day}, is {thing} hanging about {place}?",
        ),
    ),
    "sky": Kind(
        ("skies will be {sky} {where} {when}",),
        (
            "What will it look like overhead at {place} {day}?",
            "Is {thing} above {place} {day}?",
            "When does {place} see {thing}?",
        ),
    ),
    "breeze": Kind(
        ("{strength} {direction} winds will blow across {area} {when}",),
        (
            "What sort of breeze does {place} get {day}?",
            "{day}, where does the air over {place} stream from?",
            "Is there {thing} over {place} {day}?",
        ),
    ),
    "veers": Kind(
        ("the wind will turn {direction} {where} {at}",),
        (
            "To which bearing does the breeze veer around {place} {day}?",
            "{day}, how does the weathercock at {place} swing?",
        ),
    ),
    "cools": Kind(
        ("the temperature in {area} will fall to {degrees} {at}",),
        (
            "How cold does {place} get {day}?",
            "{day}, how deep does the thermometer sink at {place}?",
            "When does it cool down to {amount} around {place}?",
            "Is it as chilly as {amount} at {place} {day}?",
        ),
    ),
    "warms": Kind(
        ("the temperature in {area} will rise to {degrees} {at}",),
        (
            "How hot does {place} get {day}?",
            "{day}, how high does the thermometer climb at {place}?",
            "When does it heat up to {amount} around {place}?",
            "Is it as mild as {amount} at {place} {day}?",
        ),
    ),
    "swings": Kind(
        ("the temperature in {place} will change from {degrees} to {degrees2} {at}",),
        (
            "How does the thermometer swing at {place} {day}?",
            "When does {place} stop being at {amount} on the thermometer?",
        ),
    ),
    "blows": Kind(
        (
            "winds {where} will reach {speed} {when}",
            "gusts of {speed} are expected {where} {when}",
            "gusts {where} will exceed {kmh} km/h {when}",
        ),
        (
            "How hard does it blow around {place} {day}?",
            "{day}, how fast does the air rush past {place}?",
            "When does the anemometer at {place} show {amount}?",
        ),
    ),
    "rainfall": Kind(
        ("{rainfall} of rain will fall {where} {when}",),
        (
            "How much water collects in the gauges of {place} {day}?",
            "{day}, how drenched does {place} get?",
            "When are gauges around {place} filled to {amount}?",
        ),
    ),
    "snowfall": Kind(
        ("{snowfall} of snow will accumulate {where} {when}",),
        (
            "How deep are the drifts around {place} {day}?",
            "{day}, how thick is the white blanket on {place}?",
            "When is {place} buried {amount} deep?",
        ),
    ),
    "odds": Kind(
        ("the chance of {fall} {where} will be {percent}% {when}",),
        (
            "How probable is {thing} around {place} {day}?",
            "{day}, what are the odds of {thing} at {place}?",
            "When does the probability of {thing} at {place} amount to {amount} in a hundred?",
        ),
    ),
    "sight": Kind(
        ("visibility {where} will drop to {metres} metres {at}",),
        (
            "How far can one see around {place} {day}?",
            "{day}, how poor is the view at {place}?",
            "When can one see no further than {amount} at {place}?",
        ),
    ),
    "barometer": Kind(
        ("the pressure at {place} will fall to {pressure} hPa {at}",),
        (
            "What does the barometer of {place} show {day}?",
            "{day}, how low does the barometer go at {place}?",
            "When does the barometer of {place} show {amount}?",
        ),
    ),
    "stream": Kind(
        ("the river at {place} will rise by {cm} cm {at}",),
        (
            "How much higher does the stream run through {place} {day}?",
            "{day}, how much does the water swell at {place}?",
            "When does the stream through {place} swell by {amount}?",
        ),
    ),
    "sea": Kind(
        ("waves off {place} will build to {waves} metres {at}",),
        (
            "How rough is the sea off {place} {day}?",
            "{day}, how tall are the swells boats meet off {place}?",
            "When do swells of {amount} roll toward {place}?",
        ),
    ),
    "damp": Kind(
        ("the humidity in {area} will remain above {percent}% {when}",),
        (
            "How damp is the air at {place} {day}?",
            "{day}, how muggy does it feel around {place}?",
            "When is the air at {place} damper than {amount} in a hundred?",
        ),
    ),
    "passes": Kind(
        (
            "a {system} will move from {place} to {place2} {at}",
            "a {system} will cross {area} {at}",
            "a {system} will approach {area} from the {direction} {at}",
            "a {system} bringing {strength} {direction} winds will reach {area} {at}",
        ),
        (
            "Is {thing} heading for {place} {day}?",
            "When does {place} meet {thing}?",
            "{day}, does {thing} visit {place}?",
        ),
    ),
    "fades": Kind(
        ("a {system} will weaken over {area} {at}",),
        (
            "Does {thing} lose its force above {place} {day}?",
            "When does {thing} fade away above {place}?",
        ),
    ),
    "shut": Kind(
        ("{route} will be closed {when}", "{route} will not reopen before {moment}"),
        (
            "Is {thing} shut at {place} {day}?",
            "When is there no way to use {thing} of {place}?",
            "{day}, do travellers find {thing} blocked at {place}?",
        ),
    ),
    "open_again": Kind(
        ("{route}, which was closed on {day}, will reopen after {moment}",),
        (
            "When is {thing} of {place} usable again?",
            "Was {thing} of {place} shut {day}?",
        ),
    ),
    "alert": Kind(
        ("a {warning} will be in effect for {area} {when}", "the {warning} for {area} will end at {clock} on {day}"),
        (
            "Is there an alert about {thing} at {place} {day}?",
            "When do officials alert {place} to {thing}?",
            "{day}, does an alert about {thing} hold around {place}?",
        ),
    ),
    "boat": Kind(
        ("the ferry from {place} to {place2} will not run {when}",),
        (
            "Is the boat service of {place} cancelled {day}?",
            "{day}, can one get across the water at {place}?",
        ),
    ),
    "pupils": Kind(
        ("schools in {area} will remain closed {when}",),
        (
            "Do pupils at {place} have lessons {day}?",
            "{day}, can children of {place} sleep late instead of going to class?",
        ),
    ),
    "asked_to": Kind(
        ("people in {area} should {advice} {when}",),
        (
            "What are residents of {place} told to do {day}?",
            "Are residents of {place} told to {thing} {day}?",
            "When must inhabitants of {place} {thing}?",
        ),
    ),
    "on_the_road": Kind(
        ("drivers on {road} should expect {haze} {when}",),
        (
            "What will motorists meet around {place} {day}?",
            "{day}, do motorists bound for {place} face {thing}?",
        ),
    ),
    "fell": Kind(
        ("{rainfall} of rain fell {where} on {day}", "{snowfall} of snow fell {where} on {day}"),
        (
            "How much came down around {place} {day}?",
            "{day}, what had the gauges of {place} collected?",
            "When had the gauges of {place} collected {amount}?",
        ),
    ),
    "hottest": Kind(
        ("the highest temperature on {day} was {degrees} in {place} and {degrees2} in {place2}",),
        (
            "How hot had it been at {place} {day}?",
            "{day}, at what mark had the thermometer of {place} peaked?",
        ),
    ),
    "coldest": Kind(
        ("the lowest temperature in {place} was {degrees}, {count} degrees lower than in {place2}",),
        ("Was it {amount} at the coldest time in {place}?", "Had {place} been as icy as {amount}?"),
    ),
    "gust": Kind(
        ("{place} recorded a gust of {kmh} km/h at {clock} on {day}",),
        (
            "How hard had it blown at {place} {day}?",
            "When had the anemometer of {place} shown {amount}?",
        ),
    ),
    "crossed": Kind(
        ("{showers} crossed {area} on {day}",),
        ("Had {thing} been over {place} {day}?", "When had {place} been under {thing}?"),
    ),
    "was_shut": Kind(
        ("{route} was closed on {day} because of {haze}",),
        (
            "Why was {thing} of {place} blocked {day}?",
            "When did bad air keep people off {thing} of {place}?",
        ),
    ),
}
